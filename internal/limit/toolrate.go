package limit

import (
	"math"

	"haft"
)

// Lowest returns the lower of two bounds, of which 0 is none.
func Lowest[T int | int64 | float64 | haft.Millis](a, b T) T {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// LowestRate returns a rate that permits no more than a and no more than b.
func LowestRate(a, b haft.Rate) haft.Rate {
	return haft.Rate{
		Calls: Lowest(a.Calls, b.Calls), Within: max(a.Within, b.Within),
		PerSecond: Lowest(a.PerSecond, b.PerSecond), Burst: Lowest(burst(a), burst(b)),
	}
}

// AddRate makes the call need what r bounds: the window, the bucket, or both.
func (a *Ask) AddRate(key string, r haft.Rate) {
	if r.Calls > 0 {
		a.Windows = append(a.Windows, Window{Key: key, Max: r.Calls, Within: r.Within.D()})
	}
	if r.PerSecond > 0 {
		a.Rates = append(a.Rates, Rate{Key: key, PerSecond: r.PerSecond, Burst: burst(r)})
	}
}

// burst is how many calls the bucket of a rate lets come at once; 0 if there is none.
func burst(r haft.Rate) int {
	if r.Burst == 0 && r.PerSecond > 0 {
		return max(1, int(math.Ceil(r.PerSecond)))
	}
	return r.Burst
}
