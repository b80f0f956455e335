//! The interfaces whose packets are counted: they may go and come back.

use std::collections::HashMap;

use netto_sys::interface_links::ethernet_index;
use netto_sys::system::Roots;

use crate::kernel::collector::{At, Collector};

/// See the head of this file.
pub(crate) struct Interfaces {
    roots: Roots,
    at: At,
    all: Vec<Watched>,
    /// Of all indices that there were.
    names: HashMap<u32, String>,
}

/// One of them.
struct Watched {
    name: String,
    /// Where the programs are attached; `None` while they are not.
    index: Option<u32>,
    notes: Vec<String>,
}

impl Interfaces {
    /// Attaches the programs to all of them.
    ///
    /// # Errors
    /// One is not there, or its packets cannot be seen.
    pub(crate) fn start(
        names: &[String],
        at: At,
        roots: &Roots,
        collector: &mut Collector,
    ) -> anyhow::Result<Interfaces> {
        let mut interfaces = Interfaces {
            roots: roots.clone(),
            at,
            all: Vec::new(),
            names: HashMap::new(),
        };
        for name in names {
            let index = ethernet_index(name, &roots.sys_root)?;
            let mut watched = Watched {
                name: name.clone(),
                index: None,
                notes: Vec::new(),
            };
            watched.attach(index, at, collector)?;
            interfaces.names.insert(index, name.clone());
            interfaces.all.push(watched);
        }
        Ok(interfaces)
    }

    /// Detaches from those that are gone, and attaches to those that are there again.
    pub(crate) fn follow(&mut self, collector: &mut Collector) {
        for own in &mut self.all {
            let now = ethernet_index(&own.name, &self.roots.sys_root);
            let name = &own.name;
            match (now, own.index) {
                (Ok(now), Some(before)) if now == before => continue,
                (Ok(index), before) => {
                    if let Some(before) = before {
                        collector.detach_from(before);
                    }
                    own.index = None;
                    if let Err(error) = own.attach(index, self.at, collector) {
                        own.notes =
                            vec![format!("flows of {} are not counted: {error:#}", own.name)];
                    }
                    self.names.insert(index, own.name.clone());
                }
                (Err(error), before) => {
                    let note =
                        format!("flows of {name} are not counted until it is back: {error:#}");
                    own.notes = vec![note];
                    if let Some(before) = before {
                        collector.detach_from(before);
                    }
                    own.index = None;
                }
            }
        }
    }

    /// The name of an interface, also of one that is gone.
    pub(crate) fn name_of(&self, index: u32) -> String {
        self.names.get(&index).cloned().unwrap_or_default()
    }

    /// What the user has to know of them.
    pub(crate) fn notes(&self) -> Option<String> {
        let notes: Vec<&str> = self
            .all
            .iter()
            .flat_map(|own| own.notes.iter().map(String::as_str))
            .collect();
        (!notes.is_empty()).then(|| format!("Of flows: {}.", notes.join("; ")))
    }
}

impl Watched {
    fn attach(&mut self, index: u32, at: At, collector: &mut Collector) -> anyhow::Result<()> {
        let attached = collector.attach(&self.name, index, at)?;
        self.notes = attached.notes;
        self.index = Some(index);
        tracing::info!("flows: {}", attached.how);
        Ok(())
    }
}
