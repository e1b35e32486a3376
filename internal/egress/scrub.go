package egress

import "bytes"

// scanner looks for placeholders in a body, however it is cut into pieces.
type scanner struct {
	secrets []Secret
	tail    []byte
	refuse  func(Secret) *Refusal
	refusal *Refusal
}

// scanner returns a scanner for a request to d, or nil if there is nothing to
// look for.
func (b *Broker) scanner(d Dest) *scanner {
	if len(b.cfg.Secrets) == 0 {
		return nil
	}
	return &scanner{secrets: b.cfg.Secrets, refuse: func(s Secret) *Refusal { return b.strayRefusal(s, d) }}
}

// seen reports whether a placeholder was in p or in what came before it.
func (s *scanner) seen(p []byte) bool {
	if s.refusal != nil {
		return true
	}
	longest := 0
	hay := append(s.tail, p...)
	for _, sec := range s.secrets {
		longest = max(longest, len(sec.Placeholder))
		if bytes.Contains(hay, []byte(sec.Placeholder)) {
			s.refusal = s.refuse(sec)
			return true
		}
	}
	s.tail = append(s.tail[:0:0], hay[max(0, len(hay)-longest+1):]...)
	return false
}
