//! The CPU time of BPF programs, as a table.

use metrics_common::sections::{About, Program};
use metrics_common::table;
use metrics_common::view::{Table, named};

/// A row for each program; id and name are absent for all further ones together.
pub const TABLES: &[Table] = &[table! {
    Table name "programs" of (_, snapshot):
        for programs in snapshot.sections.programs.iter(),
        for others in [(programs.other_samples > 0).then(|| (programs.other_cpu_ns.iter().sum(), programs.other_samples))],
        for (about, (ns, samples)) in programs.programs.iter().map(of_program).chain(others.map(|other| (None, other))) =>
    count optional "id"       = about.map(|about| about.id);
    text optional  "program"  = about.map_or(named(""), |about| named(&about.name));
    text optional  "type"     = about.map(|about| &about.kind);
    text optional  "attached" = named(&about.map(About::places).unwrap_or_default());
    count          "cpu_ns"   = ns;
    count          "samples"  = samples;
    count optional "packets"  = about.and_then(|about| about.packets).map(|packets| packets.count);
}];

fn of_program(program: &Program) -> (Option<&About>, (u64, u64)) {
    (
        Some(&program.about),
        (program.total_ns(), program.about.samples),
    )
}
