//! The heat map in the document: pixels on a canvas, names and nodes beside it.

use std::fmt::Write as _;
use std::rc::Rc;

use wasm_bindgen::{Clamped, prelude::*};
use web_sys::{
    CanvasRenderingContext2d, HtmlCanvasElement, HtmlElement, HtmlInputElement, ImageData, Window,
};

use super::choices::Choices;
use super::csv;
use super::model::{Filter, Map};
use crate::action::{Action, Format};
use crate::axes::{LEFT_PX, PlotArea};
use crate::basis::{Amount, Basis};
use crate::color::heat;
use crate::format::{self, escape_html};
use crate::page::dom::{Dom, set_attribute};
use crate::page::marks::show_cursor;
use crate::page::save::{self, File};
use crate::state::{Address, Keys, Pairs};
use crate::timeline;
use crate::view::{Pointer, Reply, Scene, View};
use metrics_common::tree::Row;

/// Height of the map, pixels, as far as lines of a readable height allow.
const HEIGHT_PX: f64 = 384.0;
const LINE_PX: (f64, f64) = (3.0, 26.0);
/// Least distance of names.
const NAME_PX: f64 = 13.0;

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(HeatMap::default())
}

/// The state of the heat map in the document.
#[derive(Default)]
struct HeatMap {
    choices: Choices,
    drawn: Option<(Map, u32, (bool, Basis))>,
}

impl Keys for HeatMap {
    fn read(&mut self, pairs: &Pairs) {
        self.choices.read(pairs);
    }

    fn write(&self, address: &mut Address) {
        self.choices.write(address);
    }
}

impl View for HeatMap {
    fn measured(&self) -> &'static [&'static str] {
        &["heat"]
    }

    fn show_choices(&self, dom: &Dom) -> Result<(), JsValue> {
        let filter: HtmlInputElement = dom.typed("filter")?;
        filter.set_value(&self.choices.filter);
        Ok(())
    }

    fn has_taken(&self, action: &Action) -> Option<bool> {
        match action {
            Action::Sort(sort) => Some(*sort == self.choices.sort),
            _ => None,
        }
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        self.redraw(scene)
    }

    /// Moves the cursor, and describes the cell under the pointer.
    fn draw_cursor(&mut self, scene: &Scene, pointer: Option<&Pointer>) -> Result<(), JsValue> {
        let Some((map, width, _)) = &self.drawn else {
            return Ok(());
        };
        let holder = scene.dom.element("heat")?;
        let at = scene
            .cursor_ms
            .filter(|ms| map.frame.step_at(*ms).is_some());
        let x = at.map(|ms| PlotArea::of((*width, 0)).x_of(&map.frame, ms));
        show_cursor(&holder, x)?;
        let y = pointer
            .and_then(|pointer| pointer.within("heat"))
            .map(|(_, y)| y);
        let Some(step) = at
            .and_then(|ms| map.frame.step_at(ms))
            .filter(|_| y.is_some())
        else {
            return match at {
                Some(_) => Ok(()),
                None => scene.dom.set_text("heat-value", ""),
            };
        };
        let line = y
            .map(|y| (y / line_px(map)) as usize)
            .and_then(|at| map.lines.get(at));
        let text = line.map_or(String::new(), |line| {
            let node = line
                .node
                .map_or(String::new(), |node| format!(" · node {node}"));
            let offset_ms = scene.dom.clock_offset_ms();
            let clock = timeline::clock(map.frame.step_begin_ms(step), offset_ms, true);
            let value = match line.values[step] {
                Some(ratio) => format!("≈ {}", ratio_text(scene.shared.basis, ratio)),
                None => "not measured".to_owned(),
            };
            format!("CPU {}{node} · {clock} · {value}", line.cpu)
        });
        scene.dom.set_text("heat-value", &text)
    }

    fn ms_at(&self, plot: &str, x: f64) -> Option<f64> {
        let (map, width, _) = self.drawn.as_ref().filter(|_| plot == "heat")?;
        Some(PlotArea::of((*width, 0)).ms_at(&map.frame, x))
    }

    fn act(&mut self, action: &Action) -> Reply {
        let Action::Sort(sort) = action else {
            return Reply::Ignored;
        };
        self.choices.sort = *sort;
        Reply::Changed
    }

    fn change(&mut self, id: &str, value: &str) -> Reply {
        match id {
            "filter" => {
                value.clone_into(&mut self.choices.filter);
                Reply::Changed
            }
            "component" => Reply::Act(Action::Component(value.to_owned())),
            _ => Reply::Ignored,
        }
    }

    fn file(&self, scene: &Scene, what: &str, format: Format) -> Result<Option<File>, JsValue> {
        let Some((map, ..)) = self.drawn.as_ref().filter(|_| what == "heat") else {
            return Ok(None);
        };
        Ok(match format {
            Format::Csv => Some(File::Text(csv::csv(map, scene.shared.basis))),
            Format::Png => {
                let canvas: HtmlCanvasElement = scene.dom.typed("heat-canvas")?;
                Some(File::Canvas(save::enlarged(scene.dom, &canvas)?))
            }
            Format::Svg | Format::Copy | Format::Folded => None,
        })
    }
}

impl HeatMap {
    /// Draws it, if it has changed.
    fn redraw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let dom = scene.dom;
        self.draw_options(scene)?;
        let width = dom.extent("heat").width.clamp(160, 4000);
        let filter = match Filter::parse(&self.choices.filter) {
            Ok(filter) => {
                dom.set_text("filter-note", "")?;
                filter
            }
            Err(word) => {
                let note = format!("“{word}” is no CPU: try 0-7,12 or node1 or >20");
                dom.set_text("filter-note", &note)?;
                Filter::default()
            }
        };
        let Some(component) = scene.info.row_of(scene.shared.by_cpu()) else {
            dom.set_text("heat-note", "this daemon knows no such component")?;
            return Ok(());
        };
        let frame = scene.frame(width, scene.history.column_length_ms());
        let map = Map::of(
            scene.history,
            component,
            frame,
            &scene.info.numa_nodes,
            &filter,
            self.choices.sort,
        );
        let dark = dom.is_dark();
        let look = (dark, scene.shared.basis);
        let fresh = match &self.drawn {
            Some((old, old_width, old_look)) => {
                *old != map || *old_width != width || *old_look != look
            }
            None => true,
        };
        if fresh {
            self.paint(dom, &map, dark)?;
            self.draw_names(dom, &map)?;
            draw_times(dom, &map, width)?;
            draw_scale(dom, &map, look)?;
            self.describe(scene, &map, component)?;
            self.drawn = Some((map, width, look));
        }
        self.draw_cursor(scene, None)
    }

    fn paint(&self, dom: &Dom, map: &Map, dark: bool) -> Result<(), JsValue> {
        let canvas: HtmlCanvasElement = dom.typed("heat-canvas")?;
        let (width, height) = (map.frame.steps as u32, map.lines.len() as u32);
        let style = canvas.style();
        style.set_property(
            "height",
            &format!("{:.0}px", line_px(map) * f64::from(height)),
        )?;
        if width == 0 || height == 0 {
            return Ok(());
        }
        // One pixel of the canvas for each cell; the browser scales it.
        if canvas.width() != width || canvas.height() != height {
            canvas.set_width(width);
            canvas.set_height(height);
        }
        let context: CanvasRenderingContext2d = canvas
            .get_context("2d")?
            .ok_or("the canvas has no context")?
            .unchecked_into();
        let pixels = map.pixels(dark);
        let image = ImageData::new_with_u8_clamped_array_and_sh(Clamped(&pixels), width, height)?;
        context.put_image_data(&image, 0.0, 0.0)
    }

    fn draw_names(&self, dom: &Dom, map: &Map) -> Result<(), JsValue> {
        let height = line_px(map);
        let every = (NAME_PX / height).ceil().max(1.0) as usize;
        // If some names are omitted, round numbers are easier to read.
        let every = [1, 2, 4, 8, 16, 32, 64]
            .into_iter()
            .find(|step| *step >= every)
            .unwrap_or(128);
        let mut html = String::new();
        for (at, line) in map.lines.iter().enumerate().step_by(every) {
            let middle = (at as f64 + 0.5) * height;
            let _ = write!(
                html,
                "<span style=\"top:{middle:.0}px\">{}</span>",
                line.cpu
            );
        }
        for (node, first, count) in map.node_stretches() {
            let (top, tall) = (first as f64 * height, count as f64 * height);
            let _ = write!(
                html,
                "<b class=\"{}\" style=\"top:{top:.0}px;height:{tall:.0}px\" \
                 title=\"NUMA node {node}\">{}</b>",
                if node % 2 == 0 { "even" } else { "odd" },
                if tall > 44.0 {
                    format!("node {node}")
                } else {
                    String::new()
                }
            );
        }
        dom.set_html("#heat-names", html)
    }

    fn describe(&self, scene: &Scene, map: &Map, component: usize) -> Result<(), JsValue> {
        let label = &scene.info.components[component].label;
        let note = match scene.info.components[component].availability {
            metrics_common::Availability::Unavailable { ref reason } => {
                format!("{label} is unavailable: {reason}")
            }
            _ => match map.busiest() {
                Some((cpu, share)) => format!(
                    "busiest: CPU {cpu}, {label} {} on average",
                    ratio_text(scene.shared.basis, share)
                ),
                None => "no CPU passes the filter".to_owned(),
            },
        };
        let hidden = match map.hidden {
            0 => String::new(),
            count => format!(" · {count} CPUs hidden by the filter"),
        };
        let text = format!("{note}{hidden}");
        scene.dom.set_text("heat-note", &text)?;
        let span = format::span(map.frame.to_ms() - map.frame.from_ms);
        let phrase = basis_of_cpu(scene.shared.basis).phrase_of_cpu();
        let sentence = format!("A CPU's values are in {phrase}; averages are of the {span} shown.");
        scene.dom.set_text("heat-basis", &sentence)?;
        let cpus = map.lines.len();
        let spoken = format!("Heat map of {label} on {cpus} CPUs over {span}; {text}.");
        set_attribute(&scene.dom.element("heat")?, "aria-label", &spoken)
    }

    /// Fills the choice of components once for each daemon.
    fn draw_options(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let mut html = String::new();
        for Row {
            component, depth, ..
        } in scene.info.tree()
        {
            let described = &scene.info.components[component];
            let chosen = described.slug == scene.shared.by_cpu();
            let _ = write!(
                html,
                "<option value=\"{}\"{}>{}{}{}</option>",
                escape_html(&described.slug),
                if chosen { " selected" } else { "" },
                "\u{2003}".repeat(depth),
                escape_html(&described.label),
                if described.availability.is_available() {
                    ""
                } else {
                    " (unavailable)"
                },
            );
        }
        scene.dom.set_html("#component", html)
    }
}

/// Height of a line of the map, in whole pixels, so that all are equal.
fn line_px(map: &Map) -> f64 {
    let lines = map.lines.len().max(1) as f64;
    (HEIGHT_PX / lines).floor().clamp(LINE_PX.0, LINE_PX.1)
}

/// Over time, a CPU's values are relative to that CPU.
fn basis_of_cpu(basis: Basis) -> Basis {
    match basis {
        Basis::Parent => Basis::Host,
        basis => basis,
    }
}

/// A share of one CPU as text.
fn ratio_text(basis: Basis, ratio: f64) -> String {
    let basis = basis_of_cpu(basis);
    let value = basis.say(Amount::of_share(ratio, 1));
    match basis {
        Basis::Host => format!("{value} of that CPU"),
        _ => value,
    }
}

/// The time axis below the map.
fn draw_times(dom: &Dom, map: &Map, width: u32) -> Result<(), JsValue> {
    let plot = PlotArea::of((width, 0));
    let most = (width / 72).max(1) as usize;
    let mut html = String::new();
    for (at, text) in timeline::ticks(&map.frame, most, dom.clock_offset_ms()) {
        let x = plot.x_of(&map.frame, at);
        // Labels that an edge would cut are omitted.
        if x > f64::from(LEFT_PX) + 14.0 && x < f64::from(plot.right) - 22.0 {
            let _ = write!(html, "<span style=\"left:{x:.0}px\">{text}</span>");
        }
    }
    dom.set_html("#heat-times", html)
}

fn draw_scale(dom: &Dom, map: &Map, (dark, basis): (bool, Basis)) -> Result<(), JsValue> {
    let stops: Vec<String> = (0..=6)
        .map(|at| heat(f64::from(at) / 6.0, dark).css())
        .collect();
    let scale: HtmlElement = dom.typed("scale-colors")?;
    let gradient = format!("linear-gradient(90deg, {})", stops.join(", "));
    scale.style().set_property("background", &gradient)?;
    dom.set_text(
        "scale-top",
        &basis_of_cpu(basis).say(Amount::of_share(map.top_ratio, 1)),
    )?;
    let canvas: HtmlElement = dom.typed("heat-canvas")?;
    canvas
        .style()
        .set_property("margin-left", &format!("{LEFT_PX}px"))
}
