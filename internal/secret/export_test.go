package secret

// Held returns how many bytes a stream holds.
func Held(s *Stream) int { return len(s.buf) }

// ByStep returns text without what is to be removed, as Text does, but looks at
// each byte in turn in every view, without passing over any.
func ByStep(r *Redactor, text string) string {
	if r.plan == nil {
		return text
	}
	buf := []byte(text)
	s := scanner{plan: r.plan}
	if s.findPersonal {
		s.personal.feed(&s, buf, 0, 0)
	}
	for i := range buf {
		s.step(buf, 0, i)
	}
	s.finish(buf, 0)
	return string(r.plan.mask(buf, mergeSpans(s.spans)))
}
