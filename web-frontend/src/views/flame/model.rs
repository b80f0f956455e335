//! The flame graph as plain values: folded stacks as a tree, the boxes of its zoomed part, and the
//! matches of a search. Pure; `draw` draws the boxes.

use metrics_common::Info;
use metrics_common::ownership::Owned;

use crate::format;
use metrics_common::sort::sort_by;

/// Longer stacks are cut: no kernel stack has as many functions.
const MOST_FRAMES: usize = 256;
/// Name of the box that holds all others.
pub const WHOLE: &str = "all of networking";
/// Number of functions in the text alternative.
const NAMED: usize = 5;

/// A function with the same callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name of the function; in the first level, slug of the event.
    pub name: String,
    /// Samples in it and in its callees.
    pub samples: u64,
    /// Samples in the function itself.
    pub self_samples: u64,
    /// Its callees, as indices in the tree, by name.
    pub children: Vec<usize>,
    /// Its caller; the root is its own parent.
    pub parent: usize,
    /// 0 for the root, 1 for an event.
    pub depth: usize,
}

/// All stacks of a time span, joined by common callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The root is the first.
    nodes: Vec<Node>,
    /// Number of lines that are not stacks.
    pub unreadable: usize,
}

impl Tree {
    /// Reads lines of `event;function;…;function COUNT`.
    pub fn parse(folded: &str) -> Tree {
        let mut nodes = vec![Node {
            name: WHOLE.to_owned(),
            samples: 0,
            self_samples: 0,
            children: Vec::new(),
            parent: 0,
            depth: 0,
        }];
        let mut unreadable = 0;
        for line in folded.lines().filter(|line| !line.trim().is_empty()) {
            let parsed = line
                .rsplit_once(' ')
                .and_then(|(stack, count)| Some((stack.trim(), count.parse::<u64>().ok()?)))
                .filter(|(stack, _)| !stack.is_empty());
            let Some((stack, count)) = parsed else {
                unreadable += 1;
                continue;
            };
            let mut at = 0;
            nodes[at].samples = nodes[at].samples.saturating_add(count);
            for frame in stack.split(';').filter(|f| !f.is_empty()).take(MOST_FRAMES) {
                let parent = at;
                let children = nodes[parent].children.iter().copied();
                at = children
                    .rev()
                    .find(|&child| nodes[child].name == frame)
                    .unwrap_or(nodes.len());
                if at == nodes.len() {
                    nodes[parent].children.push(at);
                    nodes.push(Node {
                        name: frame.to_owned(),
                        samples: 0,
                        self_samples: 0,
                        children: Vec::new(),
                        parent,
                        depth: nodes[parent].depth + 1,
                    });
                }
                nodes[at].samples = nodes[at].samples.saturating_add(count);
            }
            nodes[at].self_samples = nodes[at].self_samples.saturating_add(count);
        }
        // A function keeps its position while the shares change.
        for at in 0..nodes.len() {
            let mut children = std::mem::take(&mut nodes[at].children);
            sort_by(&mut children, |a, b| nodes[*a].name.cmp(&nodes[*b].name));
            nodes[at].children = children;
        }
        Tree { nodes, unreadable }
    }

    /// The node at a position.
    pub fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at)
    }

    /// Samples of the whole.
    pub fn samples(&self) -> u64 {
        self.nodes[0].samples
    }

    /// A node's share of all samples, 0 to 1.
    pub fn share(&self, at: usize) -> f64 {
        format::ratio(self.nodes[at].samples, self.samples())
    }

    /// Follows this path of names; returns the last node found, and the number of names found.
    pub fn find(&self, path: &[String]) -> (usize, usize) {
        let mut at = 0;
        for (found, name) in path.iter().enumerate() {
            let named = |child: &&usize| self.nodes[**child].name == *name;
            match self.nodes[at].children.iter().find(named) {
                Some(child) => at = *child,
                None => return (at, found),
            }
        }
        (at, path.len())
    }

    /// The indices from below the root down to a node, inclusive.
    pub fn line_to(&self, mut at: usize) -> Vec<usize> {
        let mut line = Vec::new();
        while at != 0 {
            line.push(at);
            at = self.nodes[at].parent;
        }
        line.reverse();
        line
    }

    /// The names from below the root down to a node.
    pub fn path_to(&self, at: usize) -> Vec<String> {
        let line = self.line_to(at);
        line.iter().map(|&at| self.nodes[at].name.clone()).collect()
    }

    /// Slug of the event that a node belongs to; the root belongs to none.
    pub fn event_of(&self, at: usize) -> Option<&str> {
        let first = *self.line_to(at).first()?;
        Some(&self.nodes[first].name)
    }

    /// The boxes of a drawing in which `zoom` and its callers have the full width. Boxes narrower
    /// than `least` (a share of the width) are omitted with their callees.
    pub fn boxes(&self, zoom: usize, least: f64) -> Vec<FlameBox> {
        let mut boxes = Vec::new();
        let callers = self.line_to(zoom);
        let above = callers.len().saturating_sub(1);
        for node in std::iter::once(0)
            .chain(callers[..above].iter().copied())
            .filter(|&node| node != zoom)
        {
            boxes.push(FlameBox {
                node,
                depth: self.nodes[node].depth,
                left: 0.0,
                right: 1.0,
                is_caller: true,
            });
        }
        let whole = self.nodes[zoom].samples.max(1) as f64;
        let mut open = vec![(zoom, 0.0)];
        while let Some((node, left)) = open.pop() {
            let current = &self.nodes[node];
            let right = (left + current.samples as f64 / whole).min(1.0);
            if current.samples == 0 || right - left < least {
                continue;
            }
            boxes.push(FlameBox {
                node,
                depth: current.depth,
                left,
                right,
                is_caller: false,
            });
            let mut from = left;
            for &child in &current.children {
                open.push((child, from));
                from += self.nodes[child].samples as f64 / whole;
            }
        }
        boxes
    }

    /// The nodes whose names contain this text, ignoring case, in ascending order, and the share of
    /// all samples in any of them. Nothing matches an empty text.
    pub fn search(&self, wanted: &str, label: impl Fn(&Node) -> String) -> (Vec<usize>, f64) {
        let wanted = wanted.trim().to_ascii_lowercase();
        let mut found = Vec::new();
        if wanted.is_empty() {
            return (found, 0.0);
        }
        let mut samples = 0;
        // Every node comes after its parent.
        let mut is_within = vec![false; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate().skip(1) {
            let parent_is_within = is_within[node.parent];
            let matches = label(node).to_ascii_lowercase().contains(&wanted);
            if matches {
                found.push(at);
            }
            // Nodes inside of a match are counted with it.
            if matches && !parent_is_within {
                samples += node.samples;
            }
            is_within[at] = parent_is_within || matches;
        }
        (found, format::ratio(samples, self.samples()))
    }

    /// The functions with the most samples of their own below a node, summed over their callers.
    pub fn hottest(&self, within: usize) -> Vec<(&str, u64)> {
        let mut by_node: Vec<(&str, u64)> = Vec::new();
        let mut open = vec![within];
        while let Some(at) = open.pop() {
            let node = &self.nodes[at];
            if node.self_samples > 0 {
                by_node.push((&node.name, node.self_samples));
            }
            open.extend(&node.children);
        }
        sort_by(&mut by_node, |a, b| a.0.cmp(b.0));
        let by_name = by_node.chunk_by(|a, b| a.0 == b.0);
        let sum = |all: &[(&str, u64)]| all.iter().map(|(_, samples)| samples).sum();
        let mut sums: Vec<(&str, u64)> = by_name.map(|all| (all[0].0, sum(all))).collect();
        sort_by(&mut sums, |a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        sums.truncate(NAMED);
        sums
    }
}

/// The box of a function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlameBox {
    /// Position in the tree.
    pub node: usize,
    /// Line from the top.
    pub depth: usize,
    /// Left edge, as a share of the width.
    pub left: f64,
    /// Right edge.
    pub right: f64,
    /// Whether it is a caller of the zoomed function.
    pub is_caller: bool,
}

/// The daemon's answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlameResponse {
    /// Status of HTTP.
    pub status: u16,
    /// Length of the sampled time, seconds.
    pub window_seconds: Option<f64>,
    /// Samples that the daemon left out to keep the answer short.
    pub left_out: Option<u64>,
    /// The folded stacks, or why there are none.
    pub body: String,
}

/// Samples of a time span.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The stacks.
    pub tree: Tree,
    /// The original stacks, for a file.
    pub folded: String,
    /// Length of the sampled time, seconds.
    pub window_seconds: Option<f64>,
    /// Number of samples without a stack.
    pub left_out: u64,
    /// For a single component: its name, and the samples of all networking.
    pub of: Option<(String, u64)>,
}

impl Profile {
    /// Interprets an answer.
    ///
    /// # Errors
    /// Why there is no flame graph, for the reader.
    pub fn of(answer: FlameResponse) -> Result<Profile, String> {
        let body = answer.body.trim();
        match answer.status {
            200 => {}
            404 => return Err("This daemon offers no flame graph.".to_owned()),
            503 if !body.is_empty() => {
                let reason: String = body.chars().take(400).collect();
                return Err(format!("No flame graph here: {reason}"));
            }
            status => {
                return Err(format!(
                    "The daemon gives no flame graph (status {status})."
                ));
            }
        }
        Ok(Profile {
            tree: Tree::parse(&answer.body),
            window_seconds: answer.window_seconds.filter(|s| s.is_finite() && *s > 0.0),
            left_out: answer.left_out.unwrap_or(0),
            of: None,
            folded: answer.body,
        })
    }

    /// The part of one component.
    ///
    /// # Errors
    /// Why there is none, for the reader.
    pub fn of_component(&self, info: &Info, slug: &str) -> Result<Profile, String> {
        let Some(mut owned) = Owned::by(slug) else {
            return Err("Stacks are kept of networking only, which this is no part of.".to_owned());
        };
        let mut folded = String::new();
        for line in self.folded.lines() {
            if line
                .rsplit_once(' ')
                .is_some_and(|(stack, _)| owned.takes(stack))
            {
                folded.push_str(line);
                folded.push('\n');
            }
        }
        let name = event_label(info, slug);
        let mut tree = Tree::parse(&folded);
        tree.nodes[0].name = format!("all of {name}");
        Ok(Profile {
            tree,
            folded,
            of: Some((name, self.tree.samples())),
            ..*self
        })
    }

    /// Its basis, in one line.
    pub fn basis(&self) -> String {
        let time = match self.window_seconds {
            Some(seconds) => format!("the last {seconds:.0} s"),
            None => "the last minute".to_owned(),
        };
        if self.tree.samples() == 0 {
            let whose = self.of.as_ref().map_or("networking", |(name, _)| name);
            return format!("No sample of {whose} in {time}.");
        }
        let samples = format::count(self.tree.samples());
        let mut text = match &self.of {
            None => format!("{samples} samples of networking, {time}, all CPUs"),
            Some((name, all)) => format!(
                "{samples} samples of {name}, of {} of networking, {time}, all CPUs",
                format::count(*all)
            ),
        };
        if self.left_out > 0 {
            text += &format!(
                "; {} more in stacks too rare to be kept",
                format::count(self.left_out)
            );
        }
        text += "; shares are of samples";
        if self.tree.unreadable > 0 {
            text += &format!("; {} lines make no sense", self.tree.unreadable);
        }
        text
    }

    /// The functions with the most samples below a node, as text.
    pub fn hottest_text(&self, info: &Info, zoom: usize) -> String {
        let whole = self.tree.node(zoom).map_or(0, |node| node.samples);
        let named: Vec<String> = self
            .tree
            .hottest(zoom)
            .into_iter()
            .map(|(name, samples)| {
                let share = format::percent(format::ratio(samples, whole));
                format!("{} {share} %", event_label(info, name))
            })
            .collect();
        if named.is_empty() {
            return String::new();
        }
        format!("Most time in: {}", named.join(", "))
    }
}

/// The name of a node: an event's label, or the function's name.
pub fn label(info: &Info, node: &Node) -> String {
    match node.depth {
        1 => event_label(info, &node.name),
        _ => node.name.clone(),
    }
}

/// The subject: the component with this slug, or all networking.
pub fn subject(info: &Info, slug: &str) -> String {
    let whose = info
        .row_of(slug)
        .map_or("networking", |at| &info.components[at].label);
    format!("the kernel's functions in which {whose}'s CPU time goes")
}

fn event_label(info: &Info, slug: &str) -> String {
    info.row_of(slug)
        .map_or(slug, |at| &info.components[at].label)
        .to_owned()
}

#[cfg(test)]
mod tests;
