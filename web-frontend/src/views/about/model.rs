//! The content of a component's page, as markup and plain values. Pure.

use std::fmt::Write as _;

use metrics_common::{Availability, Info, Snapshot};

use crate::action::Action;
use crate::basis::{self, Amount, Basis};
use crate::color::Rgb;
use crate::format::escape_html;
use crate::tip;
use crate::view_model::reason_missing;

/// The heading: the component's colour and name.
pub fn title(info: &Info, component: usize) -> String {
    let described = &info.components[component];
    format!(
        "<i class=\"swatch\" style=\"background:{}\"></i>{}",
        Rgb::parse(&described.color).css(),
        escape_html(&described.label)
    )
}

/// The path to it, with a link for each whole.
pub fn path(info: &Info, component: usize) -> String {
    let mut wholes = Vec::new();
    let mut at = component;
    // A circle of components would have no end.
    while let Some(parent) = basis::parent_of(info, at).filter(|parent| !wholes.contains(parent)) {
        wholes.push(parent);
        at = parent;
    }
    let mut html = format!(
        "<button class=\"plain\"{}>All</button>",
        Action::Overview.attribute()
    );
    for &whole in wholes.iter().rev() {
        let described = &info.components[whole];
        let _ = write!(
            html,
            "<button class=\"plain\"{}>{}</button>",
            Action::About(described.slug.clone()).attribute(),
            escape_html(&described.label)
        );
    }
    let _ = write!(
        html,
        "<b>{}</b>",
        escape_html(&info.components[component].label)
    );
    html
}

/// Its current figures, as a list; or why there are none.
pub fn figures(info: &Info, snapshot: &Snapshot, component: usize, basis: Basis) -> String {
    let described = &info.components[component];
    let mut rows = match Amount::of_component(info, snapshot, component) {
        Some(amount) => {
            let of = (amount, basis::whole_of(info, component));
            tip::figures(info, snapshot, &described.slug, of, basis)
        }
        None => {
            let reason = reason_missing(info, snapshot, component);
            let reason = reason.unwrap_or("no value in this interval");
            vec![("unavailable".to_owned(), reason.to_owned())]
        }
    };
    if let Availability::Available { method } = &described.availability {
        rows.push(("measured by".to_owned(), method.to_string()));
    }
    let mut html = String::new();
    for (name, value) in rows {
        let (name, value) = (escape_html(&name), escape_html(&value));
        let _ = write!(html, "<dt>{name}</dt><dd>{value}</dd>");
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn row(slug: &str) -> usize {
        fixture::info().row_of(slug).unwrap()
    }

    #[test]
    fn the_way_down_names_every_whole_with_its_page() {
        let path = path(&fixture::info(), row("gro"));
        let acts: Vec<&str> = path.split("data-act=\"").skip(1).collect();
        let acts: Vec<&str> = acts.iter().filter_map(|a| a.split('"').next()).collect();
        assert_eq!(acts, ["overview", "about:network", "about:rx_softirq"]);
        assert!(path.ends_with("<b>GRO</b>"));
    }

    #[test]
    fn components_that_are_each_others_parts_have_an_end() {
        let mut info = fixture::info();
        info.components[0].parent = Some(info.components[1].slug.clone());
        info.components[1].parent = Some(info.components[0].slug.clone());
        assert!(path(&info, 0).ends_with("</b>"));
    }

    #[test]
    fn figures_begin_with_the_basis_of_the_page() {
        let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
        let of = |basis| figures(&info, &snapshot, row("driver_poll"), basis);
        let parent = of(Basis::Parent);
        let first = "<dt>of RX softirq</dt><dd>25.0 %</dd><dt>95 % interval</dt>";
        assert!(parent.starts_with(first), "{parent}");
        assert!(of(Basis::Cpus).starts_with("<dt>CPUs&#39; worth</dt><dd>0.05 CPUs</dd>"));
        assert!(parent.contains("<dt>measured by</dt>"));
    }

    #[test]
    fn what_is_not_measured_says_why_and_has_no_figures() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        fixture::take_away(&mut info, &mut snapshot, "bridging", "no <bridge>");
        let html = figures(&info, &snapshot, row("bridging"), Basis::Host);
        assert_eq!(html, "<dt>unavailable</dt><dd>no &lt;bridge&gt;</dd>");
    }
}
