//! The interfaces whose packets are counted: they may go and come back, and others may take netto's
//! programs from them.

use netto_sys::interface_links::ethernet_index;
use netto_sys::system::Roots;

use crate::kernel::collector::{At, Collector};

/// See the head of this file.
pub(crate) struct Interfaces {
    roots: Roots,
    at: At,
    all: Vec<Watched>,
}

/// One of them.
struct Watched {
    name: String,
    /// Where the programs are attached; `None` while they are not.
    index: Option<u32>,
    /// Where they were attached before: packets that came until then are read with the next interval.
    former: Option<u32>,
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
        };
        for name in names {
            let index = ethernet_index(name, &roots.sys_root)?;
            let mut watched = Watched {
                name: name.clone(),
                index: None,
                former: None,
                notes: Vec::new(),
            };
            watched.attach(index, at, collector)?;
            interfaces.all.push(watched);
        }
        Ok(interfaces)
    }

    /// Detaches from those that are gone, and attaches to those that are there again, or that others
    /// have taken a program from.
    pub(crate) fn follow(&mut self, collector: &mut Collector) {
        for own in &mut self.all {
            let now = ethernet_index(&own.name, &self.roots.sys_root);
            let is_there = own.index.is_some() && now.as_ref().ok() == own.index.as_ref();
            if is_there && own.index.is_some_and(|index| collector.is_in_place(index)) {
                continue;
            }
            if is_there {
                tracing::warn!(
                    "flows: somebody has detached or replaced netto's programs at {}; attaching them again",
                    own.name
                );
            }
            if let Some(before) = own.index.take() {
                collector.detach_from(before);
                own.former = Some(before);
            }
            match now {
                Ok(index) => {
                    if let Err(error) = own.attach(index, self.at, collector) {
                        own.notes =
                            vec![format!("flows of {} are not counted: {error:#}", own.name)];
                    }
                }
                Err(error) => {
                    let name = &own.name;
                    let note =
                        format!("flows of {name} are not counted until it is back: {error:#}");
                    own.notes = vec![note];
                }
            }
        }
    }

    /// The name of an interface, also of one that has just gone.
    pub(crate) fn name_of(&self, index: u32) -> String {
        let is_its = |own: &&Watched| [own.index, own.former].contains(&Some(index));
        let own = self.all.iter().find(is_its);
        own.map(|own| own.name.clone()).unwrap_or_default()
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
