//! The event loop of the page: connects, listens to events, and draws at most once for each frame
//! of the browser, live data at its [`crate::pace`].

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

use wasm_bindgen::convert::FromWasmAbi;
use wasm_bindgen::prelude::*;
use web_sys::{
    AddEventListenerOptions, Element, Event as DomEvent, EventTarget, KeyboardEvent, PointerEvent,
    Window,
};

use crate::connection::{Event, Socket, socket_url};
use crate::page::Page;
use crate::page::dom::action_of;

/// Interval of checks for a silent connection, milliseconds.
const WATCH_MS: i32 = 1_000;

struct App {
    window: Window,
    url: String,
    page: RefCell<Page>,
    socket: Socket,
    draw_pending: Cell<bool>,
    connect_pending: Cell<bool>,
    draw: Closure<dyn FnMut()>,
    connect: Closure<dyn FnMut()>,
}

impl App {
    fn new(window: Window) -> Result<Rc<Self>, JsValue> {
        let location = window.location();
        let url = socket_url(&location.protocol()?, &location.host()?);
        // Views may request a drawing before the application exists.
        let whom: Rc<OnceCell<Weak<App>>> = Rc::default();
        let redraw: Rc<dyn Fn()> = {
            let whom = whom.clone();
            Rc::new(move || {
                if let Some(app) = whom.get().and_then(Weak::upgrade) {
                    app.draw_soon();
                }
            })
        };
        let page = RefCell::new(Page::new(window.clone(), &redraw)?);
        let app = Rc::new_cyclic(|weak: &Weak<App>| {
            let calling = |action: fn(&App)| {
                let app = weak.clone();
                move || {
                    if let Some(app) = app.upgrade() {
                        action(&app);
                    }
                }
            };
            let on_event = weak.clone();
            App {
                window,
                url,
                page,
                socket: Socket::new(Rc::new(move |event| {
                    if let Some(app) = on_event.upgrade() {
                        app.on_event(event);
                    }
                })),
                draw_pending: Cell::new(false),
                connect_pending: Cell::new(false),
                draw: Closure::new(calling(App::draw_now)),
                connect: Closure::new(calling(App::connect_now)),
            }
        });
        let _ = whom.set(Rc::downgrade(&app));
        Ok(app)
    }

    fn on_event(&self, event: Event) {
        match event {
            Event::Message(message) => {
                if !self.page.borrow_mut().receive(message) {
                    return;
                }
            }
            Event::Garbage(complaint) => {
                self.socket.close();
                self.give_up(&format!(
                    "a message makes no sense to this page ({complaint}); reloading may help"
                ));
            }
            Event::Closed(reason) => self.give_up(&reason),
        }
        self.draw_soon();
    }

    /// Marks the connection as lost and plans the next attempt.
    fn give_up(&self, reason: &str) {
        let wait_ms = self.page.borrow_mut().connection.lost(reason);
        if !self.connect_pending.replace(true) {
            let handler = self.connect.as_ref().unchecked_ref();
            let planned = self
                .window
                .set_timeout_with_callback_and_timeout_and_arguments_0(handler, wait_ms as i32);
            report(planned.map(|_| ()));
        }
    }

    fn connect_now(&self) {
        self.connect_pending.set(false);
        self.page
            .borrow_mut()
            .connection
            .attempt(js_sys::Date::now());
        report(self.socket.connect(&self.url));
    }

    /// Draws once per frame of the browser, however many messages arrive; a page in a hidden tab is
    /// not drawn at all.
    fn draw_soon(&self) {
        if !self.draw_pending.replace(true) {
            let handler = self.draw.as_ref().unchecked_ref();
            report(self.window.request_animation_frame(handler).map(|_| ()));
        }
    }

    fn draw_now(&self) {
        self.draw_pending.set(false);
        report(self.page.borrow_mut().draw());
    }

    fn watch(&self) {
        if self.page.borrow_mut().every_second() {
            self.draw_soon();
        }
        if !self.connect_pending.get() && self.page.borrow().is_silent() {
            self.socket.close();
            self.give_up("no data received for a while");
            self.draw_soon();
        }
    }

    /// Calls `action` for every event of this kind; the application and its listeners live as long
    /// as the page.
    fn listen<E: FromWasmAbi + 'static>(
        self: &Rc<Self>,
        target: &EventTarget,
        kind: &str,
        action: impl Fn(&App, E) -> Result<(), JsValue> + 'static,
    ) -> Result<(), JsValue> {
        let app = self.clone();
        let listener = Closure::<dyn FnMut(E)>::new(move |event| report(action(&app, event)));
        let options = AddEventListenerOptions::new();
        options.set_capture(true);
        target.add_event_listener_with_callback_and_add_event_listener_options(
            kind,
            listener.as_ref().unchecked_ref(),
            &options,
        )?;
        listener.forget();
        Ok(())
    }

    fn listen_to_the_reader(self: &Rc<Self>) -> Result<(), JsValue> {
        let document = self.window.document().ok_or("there is no document")?;
        let place =
            |event: &PointerEvent| (f64::from(event.client_x()), f64::from(event.client_y()));
        self.listen(&document, "click", |app, event: DomEvent| {
            let act = match target(&event) {
                Some(target) => target.closest("[data-act]")?,
                None => None,
            };
            if let Some(action) = act.as_ref().and_then(action_of) {
                app.page.borrow_mut().act(action)?;
                app.draw_soon();
            }
            Ok(())
        })?;
        for kind in ["pointermove", "focusin"] {
            self.listen(&document, kind, move |app, event: DomEvent| {
                let Some(target) = target(&event) else {
                    return Ok(());
                };
                let at = match event.dyn_ref::<PointerEvent>() {
                    Some(pointer) => place(pointer),
                    None => {
                        let found = target.get_bounding_client_rect();
                        (found.right(), found.bottom())
                    }
                };
                match app.page.try_borrow_mut() {
                    Ok(mut page) => page.hover(&target, at),
                    // The page itself moves the focus during a drawing.
                    Err(_) => Ok(()),
                }
            })?;
        }
        let root = document.document_element().ok_or("there is no page")?;
        self.listen(&root, "pointerleave", |app, _: DomEvent| {
            app.page.borrow_mut().drop_tip()
        })?;
        self.listen(
            &document,
            "pointerdown",
            move |app, event: PointerEvent| match target(&event) {
                Some(target) if event.button() == 0 => {
                    app.page.borrow_mut().press(&target, place(&event))
                }
                _ => Ok(()),
            },
        )?;
        self.listen(&document, "pointerup", move |app, event: PointerEvent| {
            if let Some(target) = target(&event) {
                app.page.borrow_mut().release(&target, place(&event))?;
                app.draw_soon();
            }
            Ok(())
        })?;
        self.listen(&document, "keydown", |app, event: KeyboardEvent| {
            let plain = !(event.ctrl_key() || event.meta_key() || event.alt_key());
            if let Some(target) = target(&event).filter(|_| plain)
                && app.page.borrow_mut().key(&target, &event.key())?
            {
                event.prevent_default();
                app.draw_soon();
            }
            Ok(())
        })?;
        self.listen(&document, "input", |app, event: DomEvent| {
            if let Some(target) = target(&event) {
                app.page.borrow_mut().change(&target)?;
                app.draw_soon();
            }
            Ok(())
        })?;
        self.listen(&self.window, "hashchange", |app, _: DomEvent| {
            app.page.borrow_mut().read_address()?;
            app.page.borrow_mut().show_state()?;
            app.draw_soon();
            Ok(())
        })?;
        // Views are drawn when they become visible.
        for kind in ["scroll", "resize"] {
            self.listen(&self.window, kind, |app, _: DomEvent| {
                app.draw_soon();
                Ok(())
            })?;
        }
        if let Some(scheme) = self.window.match_media("(prefers-color-scheme: dark)")? {
            self.listen(&scheme, "change", |app, _: DomEvent| {
                app.draw_soon();
                Ok(())
            })?;
            // A query without a reference could be garbage collected together with its listeners.
            std::mem::forget(scheme);
        }
        Ok(())
    }
}

fn target(event: &DomEvent) -> Option<Element> {
    event.target()?.dyn_into().ok()
}

/// Shows an error where no caller can handle it.
fn report(result: Result<(), JsValue>) {
    if let Err(error) = result {
        web_sys::console::error_2(&"netto:".into(), &error);
    }
}

#[wasm_bindgen(start)]
fn start() -> Result<(), JsValue> {
    std::panic::set_hook(Box::new(|panic| {
        web_sys::console::error_1(&format!("netto: {panic}").into());
        // The page is not updated from here on, and must not look live.
        if let Some(root) = web_sys::window()
            .and_then(|window| window.document())
            .and_then(|document| document.get_element_by_id("netto"))
        {
            let _ = root.set_attribute("data-state", "lost");
            let _ = root.set_attribute("data-failure", "the page has failed: reload it");
        }
    }));
    let window = web_sys::window().ok_or("there is no window")?;
    let app = App::new(window.clone())?;
    app.listen_to_the_reader()?;
    app.page.borrow_mut().show_state()?;
    let watch = {
        let app = app.clone();
        Closure::<dyn FnMut()>::new(move || app.watch())
    };
    window.set_interval_with_callback_and_timeout_and_arguments_0(
        watch.as_ref().unchecked_ref(),
        WATCH_MS,
    )?;
    watch.forget();
    match embedded(&window) {
        Some(messages) => messages
            .into_iter()
            .for_each(|message| app.on_event(Event::of(&message))),
        None => app.connect_now(),
    }
    Ok(())
}

/// The messages embedded in a report, which has no daemon.
fn embedded(window: &Window) -> Option<Vec<Vec<u8>>> {
    let messages = js_sys::Reflect::get(window, &"nettoMessages".into()).ok()?;
    let messages: js_sys::Array = messages.dyn_into().ok()?;
    let bytes = |message: JsValue| js_sys::Uint8Array::new(&message).to_vec();
    Some(messages.iter().map(bytes).collect())
}
