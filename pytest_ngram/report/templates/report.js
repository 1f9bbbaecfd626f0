(() => {
  const root = document.documentElement, key = "pytest-ngram-theme";
  const buttons = [...document.querySelectorAll("[data-set-theme]")];
  const kept = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const set = (theme, keep) => {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    buttons.forEach(b => b.setAttribute("aria-pressed", String(b.dataset.setTheme === theme)));
    if (keep) { try { localStorage.setItem(key, theme); } catch { /* a page from a file may keep nothing */ } }
  };
  buttons.forEach(b => b.addEventListener("click", () => set(b.dataset.setTheme, true)));
  document.querySelector(".theme").hidden = false;
  const before = kept();
  set(["light", "dark"].includes(before) ? before : "auto", false);
  const open = () => {
    const at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let e = at; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    if (at) at.scrollIntoView();
  };
  addEventListener("hashchange", open);
  if (location.hash) open();
})();
