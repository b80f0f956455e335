use std::collections::{BTreeMap, HashMap};
fn main() -> anyhow::Result<()> {
    use netto::{
        analysis::support::*,
        kernel::{preflight, session::*, system::Roots},
    };
    quieten_libbpf();
    let roots = Roots {
        proc_root: "/proc".into(),
        sys_root: "/sys".into(),
    };
    let (facts, classifier) = preflight::gather(&roots, 1000)?;
    let mut classifier = classifier.unwrap();
    let plan = Plan::new(&facts);
    let (_s, mut r) = Session::start(&plan, 1000, 2000)?;
    r.samplers
        .as_mut()
        .unwrap()
        .follow(&roots.online_cpus()?)
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2000));
    let mut syms: BTreeMap<u64, String> = BTreeMap::new();
    for l in std::fs::read_to_string("/proc/kallsyms")?.lines() {
        let mut w = l.split_whitespace();
        let a = u64::from_str_radix(w.next().unwrap(), 16)?;
        let _t = w.next();
        let n = w.next().unwrap();
        if !n.starts_with("__pfx") {
            syms.insert(a, n.to_owned());
        }
    }
    let mut h: HashMap<String, usize> = HashMap::new();
    let want = std::env::args().nth(1);
    r.stacks.drain(
        |t| {
            let f = classifier
                .classify(t.kind, t.frames)
                .map(|i| metrics_common::COMPONENTS[i].slug);
            if t.kind == 4 && f == want.as_deref() {
                let s: Vec<String> = t
                    .frames
                    .iter()
                    .take(14)
                    .enumerate()
                    .map(|(i, a)| {
                        let a = if i > 0 { a - 1 } else { *a };
                        let (b, n) = syms.range(..=a).next_back().unwrap();
                        format!(
                            "{n}{}",
                            if i == 0 {
                                format!("+{}", a - b)
                            } else {
                                String::new()
                            }
                        )
                    })
                    .collect();
                *h.entry(s.join(" < ")).or_default() += 1;
            }
        },
        |_, _| {},
    );
    let mut v: Vec<_> = h.into_iter().collect();
    v.sort_by_key(|x| std::cmp::Reverse(x.1));
    for (s, n) in v.iter().take(12) {
        println!("{n} {s}");
    }
    Ok(())
}
