package limit

import "haft"

// Lowest returns the lower of two bounds, of which 0 is none.
func Lowest[T int | int64 | float64 | haft.Millis](a, b T) T {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
