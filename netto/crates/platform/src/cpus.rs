//! The CPUs of each interval, and the notes about them.

use anyhow::ensure;

use netto_analysis::proc_stat::ProcStat;
use netto_analysis::unsampled::Unsampled;
use netto_sys::session::Readers;
use netto_sys::system::{OnlineList, Roots};

/// Follows the host's CPUs from interval to interval.
#[derive(Debug, Default)]
pub(super) struct Cpus {
    /// The list of online CPUs; `None` while it cannot be opened.
    list: Option<OnlineList>,
    unsampled: Unsampled,
    /// Whether a damaged list of CPUs has been reported.
    list_is_told: bool,
    notes: Vec<String>,
}

impl Cpus {
    /// Returns the CPUs that are online now, at least one, and starts the sampler on new ones. News
    /// is logged if `warns`; at the start, the caller reports the notes.
    ///
    /// # Errors
    /// If no source tells which CPUs there are.
    pub(super) fn follow(
        &mut self,
        roots: &Roots,
        stat: &ProcStat,
        readers: &mut Readers,
        warns: bool,
    ) -> anyhow::Result<Vec<u32>> {
        let possible_cpus = readers.possible_cpus as u32;
        let mut notes = Vec::new();
        let mut cpus = self.online(roots).unwrap_or_else(|error| {
            let note = format!("The CPUs are those of /proc/stat: {error:#}.");
            if !std::mem::replace(&mut self.list_is_told, true) && warns {
                tracing::warn!("{note}");
            }
            notes.push(note);
            stat.cpus.iter().map(|(cpu, _)| *cpu).collect()
        });
        cpus.retain(|cpu| *cpu < possible_cpus);
        cpus.dedup();
        ensure!(
            !cpus.is_empty(),
            "neither {} nor {} names a CPU that this kernel can have ({possible_cpus}); \
             are --sys-root and --proc-root right?",
            roots.sys_root.join("devices/system/cpu/online").display(),
            roots.proc_root.join("stat").display()
        );
        if let Some(samplers) = &mut readers.samplers {
            let refused = samplers.follow(&cpus).into_iter();
            let refused = refused.map(|(cpu, error)| (cpu, error.to_string()));
            let news = self.unsampled.observe(refused);
            if warns {
                news.iter().for_each(|news| tracing::warn!("{news}"));
            }
            notes.extend(self.unsampled.notes());
        }
        self.notes = notes;
        Ok(cpus)
    }

    fn online(&mut self, roots: &Roots) -> anyhow::Result<Vec<u32>> {
        let list = match self.list.take() {
            Some(list) => list,
            None => roots.online_list()?,
        };
        self.list.insert(list).cpus()
    }

    /// The notes about the CPUs of this interval.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }
}
