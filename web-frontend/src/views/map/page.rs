//! The map of CPUs in the document: a pixel of a canvas for each.

use std::fmt::Write as _;
use std::rc::Rc;

use metrics_common::Info;
use wasm_bindgen::{Clamped, prelude::*};
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, HtmlElement, ImageData, Window};

use super::model::Map;
use crate::basis::{Amount, Basis};
use crate::color::heat;
use crate::page::dom::{Dom, set_attribute};
use crate::state::Keys;
use crate::view::{Pointer, Scene, View};

/// Width of a line of squares, and largest side of a square, pixels.
const LINE_PX: usize = 304;
const SQUARE_PX: usize = 36;

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(CpuMap::default())
}

/// The state of the map in the document.
#[derive(Default)]
struct CpuMap {
    drawn: Option<(Map, bool, Basis)>,
    /// The place under the pointer, as parts of the map's width and height.
    hovered: Option<(f64, f64)>,
}

impl Keys for CpuMap {}

impl View for CpuMap {
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let dom = scene.dom;
        let Some(map) = Map::of(scene.info, scene.shown) else {
            return Ok(());
        };
        let now = (map, dom.is_dark(), scene.shared.basis);
        if self.drawn.as_ref() != Some(&now) {
            paint(dom, &now)?;
            self.drawn = Some(now);
        }
        self.show_tip(dom, scene.info)
    }

    fn hover(&mut self, scene: &Scene, pointer: &Pointer) -> Result<bool, JsValue> {
        let Some((x, y)) = pointer.within("map-cells") else {
            return Ok(false);
        };
        let cells = scene.dom.element("map-cells")?.get_bounding_client_rect();
        self.hovered = Some((x / cells.width(), y / cells.height()));
        scene.dom.place_tip(pointer.place)?;
        self.show_tip(scene.dom, scene.info)?;
        Ok(true)
    }

    fn leave(&mut self, _: &Dom) -> Result<(), JsValue> {
        self.hovered = None;
        Ok(())
    }
}

impl CpuMap {
    /// Updates the tip to the interval.
    fn show_tip(&self, dom: &Dom, info: &Info) -> Result<(), JsValue> {
        let (Some((map, _, basis)), Some(place)) = (&self.drawn, self.hovered) else {
            return Ok(());
        };
        let found = map.at(place);
        if let Some((cpu, ratio)) = found {
            let node = info.numa_nodes.get(cpu as usize);
            let node = node.map_or(String::new(), |node| format!(", node {node}"));
            let share = say(*basis, ratio);
            let text = format!("CPU {cpu}{node}: {share} networking");
            dom.set_text("tip", &text)?;
        }
        dom.set_hidden("tip", found.is_none())
    }
}

/// A share of one CPU.
fn say(basis: Basis, ratio: f64) -> String {
    basis.say(Amount::of_share(ratio, 1))
}

fn paint(dom: &Dom, (map, dark, basis): &(Map, bool, Basis)) -> Result<(), JsValue> {
    let (columns, lines) = (map.columns, map.lines());
    let canvas: HtmlCanvasElement = dom.typed("map-canvas")?;
    // One pixel of the canvas for each CPU; the browser scales it.
    if (canvas.width(), canvas.height()) != (columns as u32, lines as u32) {
        canvas.set_width(columns as u32);
        canvas.set_height(lines as u32);
        let side = (LINE_PX / columns).min(SQUARE_PX);
        let cells: HtmlElement = dom.typed("map-cells")?;
        for (name, value) in [
            ("width", format!("{}px", side * columns)),
            ("height", format!("{}px", side * lines)),
            ("--square", format!("{side}px")),
        ] {
            cells.style().set_property(name, &value)?;
        }
    }
    let context: CanvasRenderingContext2d = canvas
        .get_context("2d")?
        .ok_or("the canvas has no context")?
        .unchecked_into();
    let pixels = map.pixels(*dark);
    let image = ImageData::new_with_u8_clamped_array_and_sh(
        Clamped(&pixels),
        columns as u32,
        lines as u32,
    )?;
    context.put_image_data(&image, 0.0, 0.0)?;
    let hottest = map.hottest();
    let mut html = String::new();
    for (cpu, ratio) in &hottest {
        let _ = write!(html, "<dt>CPU {cpu}</dt><dd>{}</dd>", say(*basis, *ratio));
    }
    if html.is_empty() {
        html.push_str("<dt>No networking on any CPU</dt>");
    }
    dom.set_html("#map-hottest", html)?;
    let spoken = hottest.first().map_or("none has any".to_owned(), |first| {
        format!("most on CPU {}, {}", first.0, say(*basis, first.1))
    });
    let label = format!(
        "Networking on {} CPUs: {spoken}. Leads to CPUs over time.",
        map.cpus.len()
    );
    set_attribute(&dom.element("map-cells")?, "aria-label", &label)?;
    let stops: Vec<String> = (0..=6)
        .map(|at| heat(f64::from(at) / 6.0, *dark).css())
        .collect();
    let scale: HtmlElement = dom.typed("map-scale")?;
    let gradient = format!("linear-gradient(90deg, {})", stops.join(", "));
    scale.style().set_property("background", &gradient)?;
    dom.set_text("map-top", &say(*basis, map.top_ratio))
}
