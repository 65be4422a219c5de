// Keeps the page up to date, follows Airflow's theme, and opens Airflow's own pages outside of the frame.
"use strict";
(() => {
  const INTERVAL_MS = 5000;
  const live = document.querySelector("[data-live]");
  const freshness = document.getElementById("freshness");
  let timer = 0;
  let asking = false;
  let updated = new Date();

  // The frame has the same origin as Airflow, so its theme can be read; elsewhere the system's counts.
  function outerRoot() {
    try {
      return window.parent !== window ? window.parent.document.documentElement : null;
    } catch {
      return null;
    }
  }

  function followTheme() {
    const outer = outerRoot();
    if (!outer) return;
    const take = () => {
      const dark = outer.classList.contains("dark");
      const known = dark || outer.classList.contains("light");
      if (known) document.documentElement.dataset.theme = dark ? "dark" : "light";
    };
    take();
    new MutationObserver(take).observe(outer, { attributes: true, attributeFilter: ["class"] });
  }

  function say(text, bad) {
    if (freshness.textContent !== text) freshness.textContent = text;
    freshness.classList.toggle("bad", bad);
  }

  function clock(date) {
    return date.toLocaleTimeString([], { hour12: false });
  }

  // Only parts that changed are replaced; focus, scroll positions and opened lists stay as they are.
  function merge(text) {
    const fresh = document.createElement("div");
    fresh.innerHTML = text;
    const parts = [...live.querySelectorAll("[data-part]")];
    const names = parts.map((part) => part.dataset.part).join();
    const freshParts = [...fresh.querySelectorAll("[data-part]")];
    if (names !== freshParts.map((part) => part.dataset.part).join()) {
      replace(live, fresh);
      return;
    }
    freshParts.forEach((part, index) => {
      if (part.innerHTML !== parts[index].innerHTML) replace(parts[index], part);
    });
  }

  function replace(old, fresh) {
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    const scrolled = [old.scrollLeft, old.scrollTop];
    const open = [...old.querySelectorAll("details[open]")].map((each) => each.id);
    old.replaceChildren(...fresh.childNodes);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    [old.scrollLeft, old.scrollTop] = scrolled;
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  async function refresh() {
    if (asking || document.hidden) return;
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && live.contains(selection.anchorNode)) return;
    asking = true;
    try {
      const answer = await fetch(location.href, { headers: { "X-Streams-Fragment": "live" }, redirect: "error" });
      if (answer.status === 401) {
        say("Your session has ended: sign in again", true);
        clearInterval(timer);
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      merge(await answer.text());
      updated = new Date();
      say(`Updated ${clock(updated)}`, false);
    } catch (error) {
      say(`Not updated since ${clock(updated)}`, true);
    } finally {
      asking = false;
    }
  }

  function openOutside(event) {
    const link = event.target.closest("a[data-airflow]");
    const outer = outerRoot();
    if (!link || !outer || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    // A frame may not navigate what it stands in, but a link of Airflow's own document may.
    const copy = outer.ownerDocument.createElement("a");
    copy.href = link.href;
    outer.ownerDocument.body.append(copy);
    copy.click();
    copy.remove();
  }

  function sendOnce(event) {
    const form = event.target;
    if (!form.matches("form[data-once]")) return;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    form.querySelector("button[type=submit]").setAttribute("aria-disabled", "true");
  }

  followTheme();
  document.addEventListener("click", openOutside);
  document.addEventListener("submit", sendOnce);
  if (live) {
    say(`Updated ${clock(updated)}`, false);
    timer = setInterval(refresh, INTERVAL_MS);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) refresh();
    });
  }
})();
