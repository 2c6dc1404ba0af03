/* What every page uses. */

const element = (id) => document.getElementById(id);
const raise = (number) => [...String(number)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
const whole = (number) => number.toLocaleString("en");
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Set a slider and how far it is filled. */
function setRange(input, low, high, value, words) {
  input.min = low;
  input.max = high;
  input.value = value;
  input.setAttribute("aria-valuetext", words);
  input.style.setProperty("--filled", (value - low) / Math.max(high - low, 1));
}

/** The light or dark theme: the system's until the reader chooses; `changed` is called after each change. */
function dressing(changed) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const dress = (night) => {
    document.documentElement.dataset.theme = night ? "dark" : "light";
    element("theme").setAttribute("aria-pressed", String(night));
    changed();
  };
  dark.addEventListener("change", (event) => dress(event.matches));
  const toggle = () => dress(document.documentElement.dataset.theme !== "dark");
  element("theme").addEventListener("click", toggle);
  dress(dark.matches);
  return toggle;
}

/** A new element with its attributes and content; strings are added as text, never as HTML. */
function make(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}
