//! A chart over time in the document, with its legend and the sentence below. Its view chooses the
//! content.

use wasm_bindgen::prelude::*;
use web_sys::Element;

use super::dom::{LiveText, all, replace, set_attribute};
use super::marks::show_cursor;
use super::save::File;
use crate::action::{Action, Format, parts_button};
use crate::axes::PlotArea;
use crate::basis::Basis;
use crate::chart::draw::{self, Chart, Layer};
use crate::chart::{csv, legend, model};
use crate::timeline::{self, Frame, Times};
use crate::view::{Pointer, Reply, Scene};
use metrics_common::component::NETWORK;

/// Height of a chart: a part of its width, within these bounds.
const HEIGHT_PX: (u32, u32) = (150, 230);

/// The parts of a legend that determine its markup.
type Layout = Vec<(Option<String>, String)>;

/// What a chart is of: the component, the steps and how far they are known, the unit, marks, and the layer
/// at the pointer.
#[derive(PartialEq)]
struct Subject {
    whole: String,
    frame: Frame,
    basis: Basis,
    cpus: usize,
    known_ms: (f64, f64),
    times: Times,
    pointed: Option<String>,
    size: (u32, u32),
    dark: bool,
}

/// One chart over time.
pub struct TimeChart {
    /// Id of its element in the document; those of its legend and its sentence have the suffixes
    /// `-legend` and `-basis`.
    pub id: &'static str,
    /// The drawn chart, its size, and whether it is dark.
    pub drawn: Option<(Chart, (u32, u32), bool)>,
    layout: Option<(String, Layout)>,
    values: Vec<LiveText>,
    /// Slug of the layer at the pointer, whose interval is drawn.
    pointed: Option<String>,
    /// What the drawn chart is of: while it is the same, nothing in it has changed.
    subject: Option<Subject>,
    /// Number of the button that opens the parts without a line of their own, and whether it has.
    others: (usize, bool),
}

impl TimeChart {
    /// Not drawn yet.
    pub fn new(id: &'static str, button: usize) -> Self {
        TimeChart {
            id,
            others: (button, false),
            drawn: None,
            layout: None,
            values: Vec::new(),
            pointed: None,
            subject: None,
        }
    }

    /// Draws the parts of a component, if anything has changed.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn draw(&mut self, scene: &Scene, whole: &str) -> Result<(), JsValue> {
        let dom = scene.dom;
        let holder = dom.element(self.id)?;
        // It has no width before it is shown.
        let width = match dom.extent(self.id).width {
            0 => holder.client_width().max(0) as u32,
            width => width,
        };
        let width = width.clamp(160, 4000);
        let size = (width, (width / 4).clamp(HEIGHT_PX.0, HEIGHT_PX.1));
        let dark = dom.is_dark();
        let history = scene.history;
        let frame = scene.frame(width, history.resolution_ms());
        let subject = Subject {
            whole: whole.to_owned(),
            frame,
            known_ms: history.known_ms(frame.from_ms, frame.to_ms()),
            basis: scene.shared.basis,
            cpus: scene.cpus(),
            times: scene.times(),
            pointed: self.pointed.clone(),
            size,
            dark,
        };
        if self.subject.as_ref() == Some(&subject) {
            return self.draw_cursor(scene, whole);
        }
        let chart = model::parts_chart(
            scene.info,
            history,
            whole,
            frame,
            (subject.basis, subject.cpus),
            subject.times.clone(),
            self.pointed.as_deref(),
        );
        self.subject = Some(subject);
        let fresh = match &self.drawn {
            Some((old, old_size, old_dark)) => {
                *old != chart || *old_size != size || *old_dark != dark
            }
            None => true,
        };
        if fresh {
            let svg = draw::svg(&chart, dom.theme(), size)
                .map_err(|error| JsValue::from(error.to_string()))?;
            dom.set_html(&format!("#{} .drawing", self.id), svg)?;
            let label = scene
                .info
                .row_of(whole)
                .map_or(whole, |index| &scene.info.components[index].label);
            set_attribute(&holder, "aria-label", &model::spoken(&chart, label))?;
            dom.set_text(&format!("{}-basis", self.id), &model::sentence(&chart))?;
            self.drawn = Some((chart, size, dark));
        }
        self.draw_cursor(scene, whole)
    }

    /// Moves the cursor and shows the values at it.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn draw_cursor(&mut self, scene: &Scene, whole: &str) -> Result<(), JsValue> {
        let Some((chart, size, _)) = &self.drawn else {
            return Ok(());
        };
        let holder = scene.dom.element(self.id)?;
        let at = scene
            .cursor_ms
            .filter(|ms| chart.frame.step_at(*ms).is_some());
        let x = at.map(|ms| PlotArea::of(*size).x_of(&chart.frame, ms));
        show_cursor(&holder, x)?;
        let step = at.and_then(|ms| chart.frame.step_at(ms));
        let lines = legend::lines(chart, step, self.others.1);
        let layout = (whole.to_owned(), legend::layout(&lines));
        if self.layout.as_ref() != Some(&layout) {
            let legend = scene.dom.element(&format!("{}-legend", self.id))?;
            self.values = fill(&legend, &lines, whole, self.others)?;
            self.layout = Some(layout);
        }
        let when = step.map(|step| {
            timeline::clock(chart.frame.step_begin_ms(step), chart.times.offset_ms, true)
        });
        for (live, text) in self
            .values
            .iter_mut()
            .zip(legend::texts(chart, &lines, when))
        {
            live.show(text);
        }
        Ok(())
    }

    /// Opens and closes what has no line of its own, if that is its button.
    pub fn act(&mut self, action: &Action) -> Reply {
        let (button, is_open) = self.others;
        if *action != Action::Zeros(button) {
            return Reply::Ignored;
        }
        self.others.1 = !is_open;
        Reply::Done
    }

    /// The step and the layer at the pointer.
    fn at(&self, pointer: &Pointer) -> Option<(&Chart, usize, &Layer)> {
        let ((chart, size, _), (x, y)) = self.drawn.as_ref().zip(pointer.within(self.id))?;
        let plot = PlotArea::of(*size);
        let step = chart.frame.step_at(plot.ms_at(&chart.frame, x))?;
        let layer = chart.layer_at(step, plot.value_at(y, chart.top))?;
        Some((chart, step, layer))
    }

    /// Draws the interval of the layer at the pointer, and no other's when there is none.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn point(
        &mut self,
        scene: &Scene,
        pointer: Option<&Pointer>,
        whole: &str,
    ) -> Result<(), JsValue> {
        let layer = pointer.and_then(|pointer| self.at(pointer));
        let pointed = layer.map(|(_, _, layer)| layer.key.clone());
        if self.drawn.is_some() && self.pointed != pointed {
            self.pointed = pointed;
            return self.draw(scene, whole);
        }
        self.draw_cursor(scene, whole)
    }

    /// Tells of the layer at the pointer; returns whether there is one.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn hover(&self, scene: &Scene, pointer: &Pointer) -> Result<bool, JsValue> {
        let Some((chart, step, layer)) = self.at(pointer) else {
            return Ok(false);
        };
        let begin = chart.frame.step_begin_ms(step);
        let when = timeline::clock(begin, chart.times.offset_ms, true);
        let of_step = chart.frame.only(step);
        let row = scene.info.row_of(&layer.key);
        let interval = row.and_then(|row| {
            let cpus = scene.cpus();
            timeline::intervals(scene.info, scene.history, &of_step, cpus, row)[0]
        });
        let html = model::tip(chart, layer, step, &when, interval);
        scene.dom.place_tip(pointer.place)?;
        let tip = scene.dom.element("tip")?;
        tip.set_inner_html(&html);
        tip.toggle_attribute_with_force("hidden", false)?;
        Ok(true)
    }

    /// Its file in this format.
    pub fn file(&self, scene: &Scene, format: Format) -> Option<File> {
        let (chart, size, _) = self.drawn.as_ref()?;
        match format {
            Format::Csv => Some(File::Text(csv::csv(chart))),
            Format::Svg | Format::Png => {
                let svg = draw::svg(chart, scene.dom.theme(), *size);
                svg.ok().map(File::Drawing)
            }
            Format::Copy | Format::Folded => None,
        }
    }
}

/// Puts a legend's markup into the document.
fn fill(
    legend: &Element,
    lines: &[legend::LegendRow],
    whole: &str,
    (button, is_open): (usize, bool),
) -> Result<Vec<LiveText>, JsValue> {
    let caption = "Last, mean and largest values of the chart above";
    // Events can be expanded into their parts.
    let more = (whole == NETWORK).then_some(parts_button as legend::More);
    let html = if lines.is_empty() {
        "<caption>nothing measured in this stretch of time</caption>".to_owned()
    } else {
        legend::html(
            lines,
            caption,
            more,
            Some((&Action::Zeros(button), is_open)),
        )
    };
    replace(legend, &html)?;
    let places = all(legend, "[data-value]")?.into_iter();
    Ok(places
        .map(|place| LiveText::new(place.clone(), &place))
        .collect())
}
