//! The tree of a daemon's components: which is a part of which.

use crate::Info;

/// A component in a walk through the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Index in [`Info::components`] and in the rows of a snapshot.
    pub component: usize,
    /// 0 for a root, 1 for its parts, and so on.
    pub depth: usize,
    /// Whether other rows are parts of it.
    pub has_parts: bool,
}

impl Info {
    /// Index of the component with this slug.
    pub fn row_of(&self, slug: &str) -> Option<usize> {
        self.components.iter().position(|row| row.slug == slug)
    }

    /// Indices of the parts of a component, in the daemon's order.
    pub fn parts_of<'a>(&'a self, slug: &'a str) -> impl Iterator<Item = usize> + 'a {
        let rows = self.components.iter().enumerate();
        let parts = rows.filter(move |(_, row)| row.parent.as_deref() == Some(slug));
        parts.map(|(index, _)| index)
    }

    /// The components in the order of a walk: every part right below its whole.
    ///
    /// A row whose parent is unknown counts as a root, so that no row is ever lost.
    pub fn tree(&self) -> Vec<Row> {
        let mut rows = Vec::with_capacity(self.components.len());
        let mut placed = vec![false; self.components.len()];
        for (index, component) in self.components.iter().enumerate() {
            let parent = component.parent.as_deref();
            if parent.and_then(|parent| self.row_of(parent)).is_none() {
                self.place(index, 0, &mut placed, &mut rows);
            }
        }
        // Only rows in circles are left; they are shown flat.
        for index in 0..self.components.len() {
            self.place(index, 0, &mut placed, &mut rows);
        }
        rows
    }

    fn place(&self, component: usize, depth: usize, placed: &mut [bool], rows: &mut Vec<Row>) {
        if std::mem::replace(&mut placed[component], true) {
            return;
        }
        let at = rows.len();
        rows.push(Row {
            component,
            depth,
            has_parts: false,
        });
        for part in self.parts_of(&self.components[component].slug) {
            self.place(part, depth + 1, placed, rows);
        }
        rows[at].has_parts = rows.len() > at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ComponentInfo;
    use crate::fixture::info;

    fn named(info: &Info) -> Vec<(&str, usize)> {
        let rows = info.tree();
        let named = rows.iter().map(|row| {
            let component = &info.components[row.component];
            (component.slug.as_str(), row.depth)
        });
        named.collect()
    }

    fn component(slug: &str, parent: Option<&str>) -> ComponentInfo {
        ComponentInfo {
            slug: slug.to_owned(),
            parent: parent.map(str::to_owned),
            ..info().components[0].clone()
        }
    }

    #[test]
    fn every_part_stands_right_below_its_whole_one_step_in() {
        let info = info();
        let rows = info.tree();
        assert_eq!(rows.len(), info.components.len());
        let mut path: Vec<&str> = Vec::new();
        for row in &rows {
            let component = &info.components[row.component];
            path.truncate(row.depth);
            assert_eq!(component.parent.as_deref(), path.last().copied());
            path.push(&component.slug);
        }
        let whole = |slug: &str| {
            rows.iter()
                .any(|r| info.components[r.component].slug == slug && r.has_parts)
        };
        assert!(whole("rx_softirq") && !whole("tx_softirq"));
    }

    #[test]
    fn parts_that_arrive_apart_are_brought_together() {
        let mut info = info();
        info.components = vec![
            component("a", None),
            component("b", None),
            component("a1", Some("a")),
            component("b1", Some("b")),
            component("a2", Some("a")),
        ];
        let expected = [("a", 0), ("a1", 1), ("a2", 1), ("b", 0), ("b1", 1)];
        assert_eq!(named(&info), expected);
    }

    #[test]
    fn no_row_is_lost_to_a_strange_parent_or_a_circle() {
        let mut info = info();
        info.components = vec![
            component("orphan", Some("nobody")),
            component("self", Some("self")),
            component("x", Some("y")),
            component("y", Some("x")),
        ];
        let mut seen: Vec<usize> = info.tree().iter().map(|row| row.component).collect();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3]);
    }
}
