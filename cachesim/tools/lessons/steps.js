// Steps of a lesson: a step that is clicked, or scrolled to the middle of the window, moves the lesson's timeline.
const steps = all(".step");

function stepTo(e) {
  const one = timelines.find((other) => e.closest("article").contains(other.root));
  if (!one) return;
  one.stop();
  one.event(one.runs[e.dataset.run], +e.dataset.event);
  steps.forEach((other) => other.classList.toggle("reached", other === e));
}

const middle = new IntersectionObserver(
  (seen) => {
    const first = seen.find((one) => one.isIntersecting);
    if (first) stepTo(first.target);
  },
  { rootMargin: "-55% 0px -30% 0px" },
);
steps.forEach((e) => {
  e.onclick = () => stepTo(e);
  middle.observe(e);
});
