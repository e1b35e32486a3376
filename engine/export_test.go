package engine

// Stages returns the names of the stages, in order.
func Stages() []string {
	var names []string
	for _, s := range stages() {
		names = append(names, s.name)
	}
	return names
}
