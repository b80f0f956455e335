//! The interfaces whose packets are counted: they may go and come back, and others may take netto's
//! programs from them.

use netto_platform::displacement::Displacement;
use netto_sys::interface_links::ethernet_index;
use netto_sys::system::Roots;

use crate::NAME;
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
    /// Whether others take the programs away.
    displacement: Displacement,
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
                displacement: Displacement::default(),
                notes: Vec::new(),
            };
            watched.attach(index, at, collector)?;
            interfaces.all.push(watched);
        }
        Ok(interfaces)
    }

    /// Detaches from those that are gone, and attaches to those that are there again, or that others
    /// have taken a program from.
    pub(crate) fn follow(&mut self, collector: &mut Collector, now_ns: u64) {
        for watched in &mut self.all {
            let now = ethernet_index(&watched.name, &self.roots.sys_root);
            if watched.index.is_some() && now.as_ref().ok() == watched.index.as_ref() {
                let is_in_place = watched
                    .index
                    .is_some_and(|index| collector.is_in_place(index));
                let displacement = &mut watched.displacement;
                displacement.follow(is_in_place, now_ns, NAME, &watched.name);
                if is_in_place {
                    continue;
                }
            }
            if let Some(before) = watched.index.take() {
                collector.detach_from(before);
                watched.former = Some(before);
            }
            match now {
                Ok(_) if !watched.displacement.may_attach(now_ns) => {}
                Ok(index) => {
                    if let Err(error) = watched.attach(index, self.at, collector) {
                        watched.notes = vec![format!(
                            "flows of {} are not counted: {error:#}",
                            watched.name
                        )];
                    }
                }
                Err(error) => {
                    let name = &watched.name;
                    let note =
                        format!("flows of {name} are not counted until it is back: {error:#}");
                    watched.notes = vec![note];
                }
            }
        }
    }

    /// The name of an interface, also of one that has just gone.
    pub(crate) fn name_of(&self, index: u32) -> String {
        let is_its = |watched: &&Watched| [watched.index, watched.former].contains(&Some(index));
        let watched = self.all.iter().find(is_its);
        watched
            .map(|watched| watched.name.clone())
            .unwrap_or_default()
    }

    /// What the user has to know of them.
    pub(crate) fn notes(&self) -> Option<String> {
        let notes = self
            .all
            .iter()
            .flat_map(|watched| watched.notes.iter().cloned());
        note(notes)
    }

    /// What the user has to know of those that others take programs from.
    pub(crate) fn displaced(&self) -> Option<String> {
        let all = self.all.iter();
        note(all.filter_map(|watched| watched.displacement.note(&watched.name)))
    }
}

fn note(notes: impl Iterator<Item = String>) -> Option<String> {
    let notes: Vec<String> = notes.collect();
    (!notes.is_empty()).then(|| format!("Of flows: {}.", notes.join("; ")))
}

impl Watched {
    fn attach(&mut self, index: u32, at: At, collector: &mut Collector) -> anyhow::Result<()> {
        let attached = collector.attach(&self.name, index, at)?;
        self.notes = attached.notes;
        self.index = Some(index);
        if self.displacement.is_repeated() {
            tracing::debug!("flows: {}", attached.how);
        } else {
            tracing::info!("flows: {}", attached.how);
        }
        Ok(())
    }
}
