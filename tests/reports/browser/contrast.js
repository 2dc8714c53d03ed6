// Every visible text with less contrast to its background than WCAG AA requires: [text, foreground, background, ratio].
() => {
  const numbers = (color) => (color.match(/[\d.]+/g) || []).map(Number);
  const opaque = (color) => { const [, , , alpha = 1] = numbers(color); return color !== "transparent" && alpha === 1; };
  const luminance = (color) => {
    const [red, green, blue] = numbers(color).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (opaque(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    const box = element.getBoundingClientRect();
    if (!text || element.closest("title, .hidden") || box.width < 2 || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const shape = element.closest("svg") && element.previousElementSibling;
    const foreground = element.closest("svg") ? style.fill : style.color;
    const filled = shape && shape.matches("circle, rect") && element.closest(".mark") ? getComputedStyle(shape).fill : "";
    const background = filled || behind(element.closest("svg") || element);
    const [light, dark] = [luminance(foreground), luminance(background)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push([text.slice(0, 40), foreground, background, Math.round(ratio * 100) / 100]);
  }
  return { bad: found, texts: document.body.innerText.length };
}
