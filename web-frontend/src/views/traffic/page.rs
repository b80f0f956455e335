//! Traffic in the document.

use std::rc::Rc;

use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::choices::Choices;
use super::unit_cost::Ratio;
use super::{model, tables};
use crate::axes::PlotArea;
use crate::color::Rgb;
use crate::line_chart::{self, LineChart};
use crate::page::marks::show_cursor;
use crate::state::{Address, Keys, Pairs};
use crate::timeline;
use crate::view::{Pointer, Reply, Scene, View};

/// Id of the plot.
const PLOT: &str = "per-packet";
/// Its height, pixels.
const HEIGHT_PX: u32 = 150;

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Traffic::default())
}

/// The state of the view in the document.
#[derive(Default)]
struct Traffic {
    choices: Choices,
    drawn: Option<(LineChart, u32, bool)>,
}

impl Keys for Traffic {
    fn read(&mut self, pairs: &Pairs) {
        self.choices.read(pairs);
    }

    fn write(&self, address: &mut Address) {
        self.choices.write(address);
    }
}

impl Traffic {
    fn draw_line(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let dom = scene.dom;
        let holder = dom.element(PLOT)?;
        // It has no width before it is shown.
        let width = match dom.extent(PLOT).width {
            0 => holder.client_width().max(0) as u32,
            width => width,
        };
        let width = width.clamp(160, 4000);
        let frame = scene.frame(width, scene.history.resolution_ms());
        let ratio = self.choices.ratio;
        let line = LineChart {
            values: ratio.values(scene.info, scene.history, &frame, scene.shared.basis),
            frame,
            times: scene.times(),
        };
        let dark = dom.is_dark();
        let now = (line, width, dark);
        if self.drawn.as_ref() == Some(&now) {
            return Ok(());
        }
        let color = scene
            .info
            .row_of("rx_softirq")
            .map_or(Rgb(0x80, 0x80, 0x80), |index| {
                Rgb::parse(&scene.info.components[index].color)
            });
        let svg = line_chart::svg(&now.0, color, dom.theme(), (width, HEIGHT_PX))
            .map_err(|error| JsValue::from(error.to_string()))?;
        dom.set_html("#per-packet .drawing", svg)?;
        self.drawn = Some(now);
        Ok(())
    }
}

impl View for Traffic {
    fn measured(&self) -> &'static [&'static str] {
        &[PLOT]
    }

    fn change(&mut self, id: &str, value: &str) -> Reply {
        let chosen = Ratio::named(value).filter(|_| id == "traffic-each");
        let Some(ratio) = chosen else {
            return Reply::Ignored;
        };
        self.choices.ratio = ratio;
        Reply::Changed
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Scene {
            dom, info, shown, ..
        } = *scene;
        dom.set_text("traffic-window", &scene.window(shown))?;
        let figures = model::figures(scene.info, shown).into_iter();
        let figures = figures.map(|figure| {
            format!(
                "<div><dt>{}</dt><dd>{}</dd></div>",
                figure.label, figure.value
            )
        });
        dom.set_html("#traffic-figures", figures.collect())?;
        let options = Ratio::ALL.into_iter().map(|ratio| {
            let selected = if ratio == self.choices.ratio {
                " selected"
            } else {
                ""
            };
            let (slug, label) = (ratio.slug(), ratio.label());
            format!("<option value=\"{slug}\"{selected}>{label}</option>")
        });
        dom.set_html("#traffic-each", options.collect())?;
        dom.set_html("#traffic-interfaces", tables::interfaces(shown))?;
        dom.set_html("#traffic-cpus", tables::cpus(shown))?;
        dom.set_html("#traffic-drops", tables::drops(info, shown))?;
        dom.set_text("traffic-protocols", &model::protocols(shown))?;
        if self.drawn.is_none() || scene.dom.is_in_sight(PLOT) {
            self.draw_line(scene)?;
        }
        self.draw_cursor(scene, None)
    }

    fn draw_cursor(&mut self, scene: &Scene, _: Option<&Pointer>) -> Result<(), JsValue> {
        let Some((line, width, _)) = &self.drawn else {
            return Ok(());
        };
        let at = scene
            .cursor_ms
            .and_then(|ms| Some((ms, line.frame.step_at(ms)?)));
        let plot = PlotArea::of((*width, HEIGHT_PX));
        let x = at.map(|(ms, _)| plot.x_of(&line.frame, ms));
        show_cursor(&scene.dom.element(PLOT)?, x)?;
        let ratio = self.choices.ratio;
        let basis = scene.shared.basis;
        let what = ratio.sentence(basis);
        let text = match at {
            None => what,
            Some((_, step)) => {
                let when =
                    timeline::clock(line.frame.step_begin_ms(step), line.times.offset_ms, true);
                let value = line.values[step];
                let value =
                    value.map_or("not measured".to_owned(), |value| ratio.text(value, basis));
                format!("{what} At {when}: {value}.")
            }
        };
        scene.dom.set_text("per-packet-basis", &text)
    }

    fn ms_at(&self, plot: &str, x: f64) -> Option<f64> {
        let (line, width, _) = self.drawn.as_ref().filter(|_| plot == PLOT)?;
        Some(PlotArea::of((*width, HEIGHT_PX)).ms_at(&line.frame, x))
    }
}
