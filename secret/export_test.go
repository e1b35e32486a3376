package secret

// Held returns how many bytes a stream holds.
func Held(s *Stream) int { return len(s.buf) }
