//! CPU time by mode as JSON.

use metrics_common::{CpuModes, Info, Snapshot};
use netto_questions::api::{Api, Object};
use serde::Serialize;

/// What is shown of modes.
pub const API: Api = Api {
    snapshot: Some(write),
    ..Api::SECTION
};

#[derive(Debug, Serialize)]
struct ModesView<'a> {
    host: &'a CpuModes,
    cpus: &'a [CpuModes],
}

fn write(_: &Info, snapshot: &Snapshot, object: &mut Object) {
    let modes = snapshot.sections.modes.as_ref();
    let view = modes.map(|modes| ModesView {
        host: &modes.host,
        cpus: &modes.cpus,
    });
    object.optional("cpu_modes", view);
}
