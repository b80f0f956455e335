//! The live dashboard of netto, compiled to WebAssembly.
//!
//! Everything but the wiring at the end of this file and [`page`] is pure and
//! tested on the host. In reading order, which is the way the data goes:
//!
//! * [`link`]: the connection to the daemon and its decoded messages.
//! * [`view_model`]: what the page says, as plain values.
//! * [`bars`]: the three linked bars, as plain values.
//! * [`plot`], [`legend`], [`table`], [`panels`]: those values as drawing and markup.
//! * [`format`](mod@format): numbers and strings as people read them.

pub mod link;
pub mod view_model;

pub mod bars;
pub mod legend;
pub mod panels;
pub mod plot;
pub mod table;

pub mod format;

#[cfg(test)]
mod fixture;
#[cfg(target_arch = "wasm32")]
pub mod page;

#[cfg(target_arch = "wasm32")]
mod wiring {
    use std::cell::{Cell, RefCell};
    use std::rc::{Rc, Weak};

    use wasm_bindgen::prelude::*;
    use web_sys::Window;

    use crate::link::{Event, Socket, socket_url};
    use crate::page::Page;

    /// Milliseconds between two looks at whether the connection has gone silent.
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
            let page = RefCell::new(Page::new(window.clone())?);
            Ok(Rc::new_cyclic(|weak: &Weak<App>| {
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
            }))
        }

        fn on_event(&self, event: Event) {
            match event {
                Event::Message(message) => self.page.borrow_mut().take(message),
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
            let wait_ms = self.page.borrow_mut().link.lost(reason);
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
            self.page.borrow_mut().link.attempt(js_sys::Date::now());
            report(self.socket.connect(&self.url));
        }

        /// However many messages arrive, the browser is given one frame of them;
        /// a page in a hidden tab is not drawn at all.
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
            if !self.connect_pending.get() && self.page.borrow().is_silent() {
                self.socket.close();
                self.give_up("nothing has come for a while");
                self.draw_soon();
            }
        }
    }

    /// The page's last resort; there is nobody to return an error to.
    fn report(result: Result<(), JsValue>) {
        if let Err(error) = result {
            web_sys::console::error_2(&"netto:".into(), &error);
        }
    }

    #[wasm_bindgen(start)]
    fn start() -> Result<(), JsValue> {
        std::panic::set_hook(Box::new(|panic| {
            web_sys::console::error_1(&format!("netto: {panic}").into());
            // The page stands still from here on and must not look alive.
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

        // The application lives as long as the page: these hold it, and are never dropped.
        let redraw = {
            let app = app.clone();
            Closure::<dyn FnMut()>::new(move || app.draw_soon())
        };
        window.add_event_listener_with_callback("resize", redraw.as_ref().unchecked_ref())?;
        if let Some(scheme) = window.match_media("(prefers-color-scheme: dark)")? {
            scheme.add_event_listener_with_callback("change", redraw.as_ref().unchecked_ref())?;
            // A query that nobody holds may be collected together with its listeners.
            std::mem::forget(scheme);
        }
        redraw.forget();
        let watch = {
            let app = app.clone();
            Closure::<dyn FnMut()>::new(move || app.watch())
        };
        window.set_interval_with_callback_and_timeout_and_arguments_0(
            watch.as_ref().unchecked_ref(),
            WATCH_MS,
        )?;
        watch.forget();

        app.connect_now();
        Ok(())
    }
}
