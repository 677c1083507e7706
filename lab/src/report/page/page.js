(function () {
  var root = document.documentElement, button = document.getElementById("theme"), key = "tidegate-lab-theme";
  function store(value) { try { if (value) { localStorage.setItem(key, value); } else { return localStorage.getItem(key); } } catch (_) { return null; } }
  function dark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function show(theme) { root.dataset.theme = theme; button.textContent = theme === "dark" ? "Light theme" : "Dark theme"; }
  var wanted = location.hash === "#dark" ? "dark" : location.hash === "#light" ? "light" : store();
  show(wanted || (dark() ? "dark" : "light"));
  button.hidden = false;
  button.addEventListener("click", function () { var next = dark() ? "light" : "dark"; show(next); store(next); });
})();
