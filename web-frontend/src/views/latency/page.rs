//! Latency in the document.

use std::fmt::Write as _;
use std::rc::Rc;

use metrics_common::latency::Point;
use wasm_bindgen::prelude::*;
use web_sys::{HtmlSelectElement, Window};

use super::choices::{Choices, Grouping};
use super::heat::{self, Heat};
use super::{draw, model};
use crate::axes::PlotArea;
use crate::basis::THIS_HOST;
use crate::color::Rgb;
use crate::format::escape_html;
use crate::line_chart::{self, LineChart};
use crate::page::dom::Dom;
use crate::page::marks::show_cursor;
use crate::state::{Address, Keys, Pairs, name_of, named};
use crate::timeline::{self, Frame};
use crate::view::{Pointer, Reply, Scene, View};
use metrics_common::component::NETWORK;

/// Ids of the plots, and their heights, pixels.
const HEAT: (&str, u32) = ("latency-heat", 190);
const COST: (&str, u32) = ("latency-cost", 120);

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Latency::default())
}

/// The state of the view in the document.
#[derive(Default)]
struct Latency {
    choices: Choices,
    drawn: Option<(Heat, LineChart, u32, bool)>,
}

impl Keys for Latency {
    fn read(&mut self, pairs: &Pairs) {
        self.choices.read(pairs);
    }

    fn write(&self, address: &mut Address) {
        self.choices.write(address);
    }
}

/// The colour of networking.
fn color(scene: &Scene) -> Rgb {
    scene
        .info
        .row_of(NETWORK)
        .map_or(Rgb(0x80, 0x80, 0x80), |index| {
            Rgb::parse(&scene.info.components[index].color)
        })
}

impl Latency {
    /// The point shown over time: the selected one, or else the first measured one.
    fn point(&self, scene: &Scene) -> Point {
        let latency = scene.shown.sections.latency.as_ref();
        let is_there = |point: Point| latency.is_some_and(|latency| latency.of(point).is_some());
        let first = || Point::ALL.iter().copied().find(|point| is_there(*point));
        if is_there(self.choices.point) {
            self.choices.point
        } else {
            first().unwrap_or(self.choices.point)
        }
    }

    /// Fills the list of points with the measured ones.
    fn draw_options(&mut self, scene: &Scene, chosen: Point) -> Result<(), JsValue> {
        let latency = scene.shown.sections.latency.as_ref();
        let mut html = String::new();
        let points = Point::ALL.iter().copied();
        for point in
            points.filter(|point| latency.is_some_and(|latency| latency.of(*point).is_some()))
        {
            let selected = if point == chosen { " selected" } else { "" };
            let _ = write!(
                html,
                "<option value=\"{}\"{selected}>{}</option>",
                point.slug(),
                escape_html(point.label()),
            );
        }
        scene.dom.set_html("#latency-point", html)
    }

    fn draw_plots(&mut self, scene: &Scene, point: Point) -> Result<(), JsValue> {
        let dom = scene.dom;
        // They have no width before they are shown.
        let width = match dom.extent(HEAT.0).width {
            0 => dom.element(HEAT.0)?.client_width().max(0) as u32,
            width => width,
        };
        let width = width.clamp(160, 4000);
        let frame = scene.frame(width, scene.history.resolution_ms());
        let percentiles = model::percentiles(scene.history, &frame, point);
        let basis = scene.shared.basis;
        let heat = Heat::of(scene.history, frame, point, percentiles, scene.times());
        let cost = LineChart {
            values: model::cost(scene.info, scene.history, &frame, basis),
            frame,
            times: scene.times(),
        };
        let dark = dom.is_dark();
        let now = (heat, cost, width, dark);
        if self.drawn.as_ref() == Some(&now) {
            return Ok(());
        }
        let (color, theme) = (color(scene), dom.theme());
        let drawings = [
            (HEAT.0, heat::svg(&now.0, color, theme, (width, HEAT.1))),
            (
                COST.0,
                line_chart::svg(&now.1, color, theme, (width, COST.1)),
            ),
        ];
        for (id, svg) in drawings {
            let svg = svg.map_err(|error| JsValue::from(error.to_string()))?;
            dom.set_html(&format!("#{id} .drawing"), svg)?;
        }
        self.drawn = Some(now);
        Ok(())
    }
}

impl View for Latency {
    fn measured(&self) -> &'static [&'static str] {
        &[HEAT.0, COST.0]
    }

    fn show_choices(&self, dom: &Dom) -> Result<(), JsValue> {
        let grouping = dom.typed::<HtmlSelectElement>("latency-grouping")?;
        grouping.set_value(name_of(&Grouping::ALL, self.choices.grouping));
        Ok(())
    }

    fn change(&mut self, id: &str, value: &str) -> Reply {
        match id {
            "latency-point" => match Point::of_slug(value) {
                Some(point) => self.choices.point = point,
                None => return Reply::Ignored,
            },
            "latency-grouping" => match named(&Grouping::ALL, value) {
                Some(grouping) => self.choices.grouping = grouping,
                None => return Reply::Ignored,
            },
            _ => return Reply::Ignored,
        }
        Reply::Changed
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let (dom, shown) = (scene.dom, scene.shown);
        dom.set_text("latency-window", &scene.window(shown))?;
        let table = draw::table(&model::lines(shown, self.choices.grouping));
        dom.set_html("#latency-table", table)?;
        dom.set_text("latency-remarks", &model::remarks(shown))?;
        let point = self.point(scene);
        self.draw_options(scene, point)?;
        dom.set_text("latency-heat-title", point.label())?;
        let unit = scene.shared.basis.phrase(THIS_HOST);
        dom.set_text("latency-cost-title", &format!("Cost, {unit}"))?;
        if self.drawn.is_none() || dom.is_in_sight(HEAT.0) || dom.is_in_sight(COST.0) {
            self.draw_plots(scene, point)?;
        }
        self.draw_cursor(scene, None)
    }

    fn draw_cursor(&mut self, scene: &Scene, _: Option<&Pointer>) -> Result<(), JsValue> {
        let Some((heat, cost, width, _)) = &self.drawn else {
            return Ok(());
        };
        let frame: &Frame = &heat.frame;
        let at = scene
            .cursor_ms
            .and_then(|ms| Some((ms, frame.step_at(ms)?)));
        for (id, height) in [HEAT, COST] {
            let plot = PlotArea::of((*width, height));
            let x = at.map(|(ms, _)| plot.x_of(frame, ms));
            show_cursor(&scene.dom.element(id)?, x)?;
        }
        let (what, basis) = (self.point(scene).help(), scene.shared.basis);
        let text = match at {
            None => format!("{what} The lines are the median and the 99th percentile."),
            Some((_, step)) => {
                let when = timeline::clock(frame.step_begin_ms(step), heat.times.offset_ms, true);
                let cost = cost.values.get(step).copied().flatten();
                let cost = cost.map_or("not measured".to_owned(), |value| basis.text(value));
                format!("{what} At {when}: {}; cost {cost}.", heat.step_text(step))
            }
        };
        scene.dom.set_text("latency-basis", &text)
    }

    fn ms_at(&self, plot: &str, x: f64) -> Option<f64> {
        let (_, height) = [HEAT, COST].into_iter().find(|(id, _)| *id == plot)?;
        let (heat, _, width, _) = self.drawn.as_ref()?;
        Some(PlotArea::of((*width, height)).ms_at(&heat.frame, x))
    }
}
