// Starts the dashboard; everything else is in WebAssembly.
import init from "./netto_dashboard.js";

init().catch((error) => {
  const banner = document.getElementById("banner");
  banner.textContent = `The dashboard cannot start in this browser: ${error}`;
  banner.hidden = false;
  document.getElementById("netto").dataset.state = "lost";
  throw error;
});
