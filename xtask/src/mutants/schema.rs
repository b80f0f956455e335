//! Many mutants in one build: the text of a file in which each function with mutants has a body for
//! each of them, and one environment variable chooses when the program runs.

use std::collections::BTreeMap;
use std::ops::Range;

use super::mutant::Mutant;

/// The number of the mutant that is on.
pub const MUTANT: &str = "NETTOS_MUTANT";
/// A folder, where each mutant that could have been on leaves a file with its number: the names of
/// the threads that were there, by which tests are known.
pub const REACHED: &str = "NETTOS_MUTANTS_REACHED";

/// A file with switches.
#[derive(Debug, Default)]
pub struct Schema {
    /// Its text.
    pub text: String,
    /// Mutants that have no switch: in no function, in a `const fn`, or in a function within a
    /// function that has one.
    pub alone: Vec<usize>,
    /// Where mutants are in the text: the bodies of one, and functions with all of theirs.
    parts: Vec<(Range<usize>, Vec<usize>)>,
}

impl Schema {
    /// Puts numbered mutants into the text of their file.
    pub fn new(original: &str, mutants: &[(usize, &Mutant)]) -> Schema {
        let mut schema = Schema::default();
        let mut functions: BTreeMap<(usize, usize), Vec<(usize, &Mutant)>> = BTreeMap::new();
        for &(number, mutant) in mutants {
            match mutant.function_in(original) {
                Some(span) => functions
                    .entry((span.start, span.end))
                    .or_default()
                    .push((number, mutant)),
                None => schema.alone.push(number),
            }
        }
        let mut done = 0;
        for ((begin, end), members) in functions {
            let body = body(&original[begin..end]).map(|open| begin + open..end - 1);
            let Some(body) = body.filter(|_| begin >= done) else {
                schema.alone.extend(members.iter().map(|member| member.0));
                continue;
            };
            schema.text += &original[done..body.start];
            let function = schema.text.len();
            for &(number, mutant) in &members {
                let part = schema.text.len();
                let mutated = mutant.mutated_within(original, body.clone());
                schema.text += &format!("if {} {{{mutated}}} else ", switch(number));
                let part = part..schema.text.len();
                schema.parts.push((part, vec![number]));
            }
            schema.text += &format!("{{{}}}}}", &original[body]);
            let numbers = members.iter().map(|member| member.0).collect();
            let function = function..schema.text.len();
            schema.parts.push((function, numbers));
            done = end;
        }
        schema.text += &original[done..];
        schema
    }

    /// The mutants at a byte of the text: one if it is in its own body.
    pub fn at(&self, byte: usize) -> &[usize] {
        let mut parts = self.parts.iter();
        let found = parts.find(|(part, _)| part.contains(&byte));
        found.map_or(&[], |(_, numbers)| numbers)
    }
}

/// An expression that is true if the mutant is on.
fn switch(number: usize) -> String {
    let text = r#"{ fn is_on() -> bool {
        use ::std::{collections::BTreeSet, env, ffi::OsString, fs::File, io::Write, path::Path};
        use ::std::sync::{Mutex, OnceLock};
        static ON: OnceLock<(bool, Option<OsString>)> = OnceLock::new();
        static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let (is_on, reached) = ON.get_or_init(|| {
            (env::var_os("MUTANT").is_some_and(|on| on == "NUMBER"), env::var_os("REACHED"))
        });
        if let Some(folder) = reached {
            let thread = ::std::thread::current();
            let name = thread.name().unwrap_or("no test");
            let mut seen = SEEN.lock().unwrap_or_else(|error| error.into_inner());
            if !seen.contains(name) {
                seen.insert(name.to_owned());
                let mut options = File::options();
                let file = options.create(true).append(true).open(Path::new(folder).join("NUMBER"));
                let _ = file.and_then(|mut file| file.write_all(::std::format!("{name}\n").as_bytes()));
            }
        }
        *is_on
    } is_on() }"#;
    let text = text.replace("MUTANT", MUTANT).replace("REACHED", REACHED);
    // On one line: what the compiler says of the rest has the lines of the source.
    let lines = text.lines().map(str::trim);
    lines
        .collect::<Vec<_>>()
        .join(" ")
        .replace("NUMBER", &number.to_string())
}

/// Where the body of a function begins, after its brace; `None` if it cannot have a switch.
fn body(function: &str) -> Option<usize> {
    let mut at = 0;
    for line in function.split_inclusive('\n') {
        let is_comment = line.trim_start().starts_with("//");
        if let Some(head) = line.find("fn ").filter(|_| !is_comment) {
            if line[..head].contains("const ") {
                return None;
            }
            let mut depth = 0;
            for (index, letter) in function[at + head..].char_indices() {
                match letter {
                    '(' | '[' => depth += 1,
                    ')' | ']' => depth -= 1,
                    '{' if depth == 0 => return Some(at + head + index + 1),
                    _ => {}
                }
            }
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutant_has_a_body_of_its_own_and_is_found_there() {
        let text =
            "/// A {fn }.\nfn sum(It { a, b }: It) -> u32 {\n    a + b\n}\nconst N: u32 = 1 + 1;\n";
        let mutants = [
            Mutant::for_test((3, 7), "-", Some(((1, 1), (4, 2)))),
            Mutant::for_test((3, 7), "*", Some(((1, 1), (4, 2)))),
            Mutant::for_test((5, 18), "-", None),
        ];
        let schema = Schema::new(
            text,
            &[(7, &mutants[0]), (8, &mutants[1]), (9, &mutants[2])],
        );
        assert_eq!(schema.alone, [9]);
        let expected = format!(
            "/// A {{fn }}.\nfn sum(It {{ a, b }}: It) -> u32 {{if {} {{\n    a - b\n}} else \
             if {} {{\n    a * b\n}} else {{\n    a + b\n}}}}\nconst N: u32 = 1 + 1;\n",
            switch(7),
            switch(8)
        );
        assert_eq!(schema.text, expected);
        let at = |part: &str| schema.at(schema.text.find(part).unwrap());
        assert_eq!(at("a - b"), [7]);
        assert_eq!(at("a * b"), [8]);
        assert_eq!(at("a + b"), [7, 8]);
        assert!(at("const N").is_empty());
    }

    #[test]
    fn a_constant_function_has_no_switch() {
        assert_eq!(body("pub const fn one() -> u32 {\n    1\n}"), None);
        assert_eq!(body("fn one() {}"), Some(10));
    }
}
