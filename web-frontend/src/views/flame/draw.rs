//! Draws the flame graph as SVG: callers above callees. Knows pixels and colours, but not the source
//! of stacks.

use std::fmt::Write as _;

use super::model::{FlameBox, Profile, Tree, label};
use crate::color::Rgb;
use crate::format::{self, escape_html};
use crate::plot::{Theme, ink_on};
use metrics_common::Info;

/// Height of a line of boxes including the gap below, pixels.
pub const LINE_PX: i32 = 18;
/// Boxes narrower than this are not drawn.
pub const LEAST_PX: f64 = 2.0;
/// Narrower boxes carry no text.
const TEXT_PX: i32 = 28;
const FONT_PX: u32 = 11;
/// Average width of a character of the system's sans-serif font, as a share of its size.
const CHARACTER_EM: f64 = 0.61;
/// Number of tints of an event's colour, and paleness of callers of the zoomed function and of
/// boxes that do not match a search.
const TINTS: u8 = 5;
const CALLER: f64 = 0.55;
const NOT_FOUND: f64 = 0.82;

/// The content of a drawing.
pub struct Flames<'a> {
    /// The daemon's description, for colours and names of events.
    pub info: &'a Info,
    /// The stacks.
    pub tree: &'a Tree,
    /// The boxes from [`Tree::boxes`].
    pub boxes: &'a [FlameBox],
    /// Nodes that match the search, ascending; `None` without a search.
    pub found: Option<&'a [usize]>,
}

/// Boxes of a profile in a drawing of this width, with the matches of the search.
pub fn of_profile(
    profile: &Profile,
    info: &Info,
    (boxes, width): (&[FlameBox], u32),
    find: &str,
    theme: Theme,
) -> String {
    let tree = &profile.tree;
    let found = tree.search(find, |node| label(info, node)).0;
    let found = Some(found.as_slice()).filter(|_| !find.trim().is_empty());
    let flames = Flames {
        info,
        tree,
        boxes,
        found,
    };
    svg(&flames, theme, width)
}

/// Height of these boxes, pixels.
pub fn height(boxes: &[FlameBox]) -> u32 {
    let lines = boxes.iter().map(|b| b.depth + 1).max().unwrap_or(1);
    lines as u32 * LINE_PX as u32
}

/// Left, top, right and bottom of a box in a drawing of this width, pixels.
pub fn place(flame_box: &FlameBox, width: u32) -> (i32, i32, i32, i32) {
    let x = |share: f64| (share * f64::from(width)).round() as i32;
    let top = flame_box.depth as i32 * LINE_PX;
    (
        x(flame_box.left),
        top,
        x(flame_box.right),
        top + LINE_PX - 1,
    )
}

/// The box at a pixel.
pub fn hit(boxes: &[FlameBox], width: u32, (x, y): (f64, f64)) -> Option<&FlameBox> {
    boxes.iter().find(|flame_box| {
        let (left, top, right, bottom) = place(flame_box, width);
        (left..right.max(left + 1)).contains(&(x as i32)) && (top..=bottom).contains(&(y as i32))
    })
}

/// The flame graph as an SVG document of this width. Boxes without text are one element for each
/// colour: there are thousands of them.
pub fn svg(flames: &Flames, theme: Theme, width: u32) -> String {
    let height = height(flames.boxes);
    let mut narrow: Vec<(Rgb, String)> = Vec::new();
    let mut wide = String::new();
    for flame_box in flames.boxes {
        let (left, top, right, bottom) = place(flame_box, width);
        let color = color(flames, flame_box, theme);
        // A gap between neighbours, if they are wide enough.
        let gap = i32::from(right - left > 3);
        let (across, down) = ((right - left - gap).max(1), bottom - top);
        let node = flames.tree.node(flame_box.node);
        let Some(node) = node.filter(|_| right - left >= TEXT_PX) else {
            let at = narrow.iter().position(|(other, _)| *other == color);
            let at = at.unwrap_or_else(|| {
                narrow.push((color, String::new()));
                narrow.len() - 1
            });
            let _ = write!(narrow[at].1, "M{left} {top}h{across}v{down}h-{across}z");
            continue;
        };
        let text = cut(&label(flames.info, node), right - left - 8);
        let (x, y) = (left.max(0) + 4, top + LINE_PX / 2);
        let _ = writeln!(
            wide,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{across}\" height=\"{down}\" fill=\"{fill}\"/>\n\
             <text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" fill=\"{ink}\">{text}</text>",
            fill = color.css(),
            ink = ink_on(color).css(),
            text = escape_html(&text),
        );
    }
    let paths = narrow.iter().map(|(color, path)| {
        let fill = color.css();
        format!("<path fill=\"{fill}\" d=\"{path}\"/>\n")
    });
    format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n\
         <g font-family=\"sans-serif\" font-size=\"{FONT_PX}\">\n{}{wide}</g>\n</svg>\n",
        paths.collect::<String>()
    )
}

/// The tip of a box, as markup.
pub fn tip_html(info: &Info, tree: &Tree, at: usize) -> String {
    let Some(node) = tree.node(at) else {
        return String::new();
    };
    let percent =
        |part: u64, whole: u64| format!("{} %", format::percent(format::ratio(part, whole)));
    let mut rows = vec![
        ("of all".to_owned(), percent(node.samples, tree.samples())),
        ("samples".to_owned(), format::count(node.samples)),
    ];
    if let Some(&event) = tree.line_to(at).first().filter(|_| node.depth > 1)
        && let Some(event) = tree.node(event)
    {
        let of_event = (
            format!("of {}", label(info, event)),
            percent(node.samples, event.samples),
        );
        rows.insert(1, of_event);
        rows.push((
            "of all, in itself".to_owned(),
            percent(node.self_samples, tree.samples()),
        ));
    }
    let mut html = format!("<strong>{}</strong><dl>", escape_html(&label(info, node)));
    for (name, value) in rows {
        let _ = write!(html, "<dt>{}</dt><dd>{value}</dd>", escape_html(&name));
    }
    html + "</dl>"
}

/// The event's colour in the tint of the function's name; pale for boxes that do not match.
fn color(flames: &Flames, flame_box: &FlameBox, theme: Theme) -> Rgb {
    let event = flames.tree.event_of(flame_box.node);
    let base = event
        .and_then(|slug| flames.info.row_of(slug))
        .map_or(theme.empty, |at| {
            Rgb::parse(&flames.info.components[at].color)
        });
    let name = flames
        .tree
        .node(flame_box.node)
        .map_or("", |node| &node.name);
    let tint = match flame_box.depth {
        0 | 1 => 0.0,
        _ => 0.12 + 0.07 * f64::from(tint_of(name)),
    };
    let pale = match flames.found {
        Some(found) if found.binary_search(&flame_box.node).is_err() => NOT_FOUND,
        Some(_) => 0.0,
        None if flame_box.is_caller => CALLER,
        None => tint,
    };
    mix(base, theme.surface, pale)
}

/// The tint of a name, always the same.
fn tint_of(name: &str) -> u8 {
    // FNV-1a.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    ((hash >> 8) % u32::from(TINTS)) as u8
}

fn mix(color: Rgb, ground: Rgb, share: f64) -> Rgb {
    let channel = |color: u8, ground: u8| {
        (f64::from(color) * (1.0 - share) + f64::from(ground) * share).round() as u8
    };
    Rgb(
        channel(color.0, ground.0),
        channel(color.1, ground.1),
        channel(color.2, ground.2),
    )
}

/// The beginning of a name that fits.
fn cut(name: &str, width_px: i32) -> String {
    let room = (f64::from(width_px) / (CHARACTER_EM * f64::from(FONT_PX))) as usize;
    if name.chars().count() <= room {
        return name.to_owned();
    }
    let kept: String = name.chars().take(room.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const STACKS: &str =
        "rx_softirq;net_rx_action;napi_poll 30\nrx_softirq;x 1\ntx_syscall;tcp_sendmsg 69\n";

    fn fills(svg: &str) -> Vec<&str> {
        let pieces = svg.split(['<']).filter(|piece| {
            let mut kinds = ["rect ", "path "].into_iter();
            kinds.any(|kind| piece.starts_with(kind))
        });
        pieces
            .filter_map(|piece| piece.split("fill=\"").nth(1)?.split('"').next())
            .collect()
    }

    #[test]
    fn every_box_is_drawn_in_its_events_colour_and_found_where_it_is() {
        let (tree, info) = (Tree::parse(STACKS), fixture::info());
        let boxes = tree.boxes(0, LEAST_PX / 1000.0);
        let flames = Flames {
            info: &info,
            tree: &tree,
            boxes: &boxes,
            found: None,
        };
        let svg = svg(&flames, Theme::LIGHT, 1000);
        let drawn = svg.matches("<rect ").count() + svg.matches('M').count();
        assert_eq!(drawn, boxes.len());
        assert_eq!(svg.matches('M').count(), 1, "one has no room for its name");
        for slug in ["rx_softirq", "tx_syscall"] {
            let color = &info.components[info.row_of(slug).unwrap()].color;
            assert!(
                fills(&svg)
                    .iter()
                    .any(|fill| fill.eq_ignore_ascii_case(color))
            );
        }
        assert!(svg.contains("RX softirq") && svg.contains("tcp_sendmsg"));
        for flame_box in &boxes {
            let (left, top, right, _) = place(flame_box, 1000);
            let middle = (f64::from(left + right) / 2.0, f64::from(top + 5));
            assert_eq!(hit(&boxes, 1000, middle), Some(flame_box));
        }
        assert_eq!(hit(&boxes, 1000, (10.0, 500.0)), None);
    }

    #[test]
    fn a_search_pales_what_it_does_not_find() {
        let (tree, info) = (Tree::parse(STACKS), fixture::info());
        let boxes = tree.boxes(0, 0.0);
        let (found, _) = tree.search("sendmsg", |node| node.name.clone());
        let matching = boxes.iter().find(|b| found.contains(&b.node)).unwrap();
        let other = boxes
            .iter()
            .find(|b| b.depth == 2 && !found.contains(&b.node))
            .unwrap();
        let flames = Flames {
            info: &info,
            tree: &tree,
            boxes: &boxes,
            found: Some(&found),
        };
        let strong = color(&flames, matching, Theme::LIGHT);
        let pale = color(&flames, other, Theme::LIGHT);
        assert!(
            pale.luminance() > strong.luminance() + 0.2,
            "{strong:?} {pale:?}"
        );
    }

    #[test]
    fn a_tip_says_shares_of_the_whole_and_of_the_event() {
        let (tree, info) = (Tree::parse(STACKS), fixture::info());
        let path = ["rx_softirq", "net_rx_action"].map(str::to_owned);
        let tip = tip_html(&info, &tree, tree.find(&path).0);
        for part in [
            "net_rx_action",
            "of all</dt><dd>30.0 %",
            "of RX softirq</dt><dd>96.8 %",
            "in itself</dt><dd>0 %",
        ] {
            assert!(tip.contains(part), "{part} in {tip}");
        }
        let evil = Tree::parse("<b>;<i>x 1");
        assert!(!tip_html(&info, &evil, 2).contains("<i>"));
    }

    #[test]
    fn names_are_cut_to_their_boxes() {
        assert_eq!(cut("tcp_sendmsg", 200), "tcp_sendmsg");
        let short = cut("tcp_sendmsg_locked", 60);
        assert!(
            short.ends_with('…') && short.chars().count() < 11,
            "{short}"
        );
        assert_eq!(tint_of("memcpy"), tint_of("memcpy"));
    }
}
