/* The page of gln view. */

window.page = new Page(JSON.parse(element("data").textContent));
