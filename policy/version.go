package policy

import "slices"

// join adds what holds for the current version of the tool to a decision about
// another one. It is the one place where the rules of two versions meet: each deny,
// ask and limit of either counts, and an allow is needed for both, unless a rule that
// allows has the digest of the version that would run.
func (d *decision) join(now *decision) {
	for _, x := range now.denies {
		if !slices.ContainsFunc(d.denies, func(have denial) bool { return have.rule == x.rule }) {
			d.denies = append(d.denies, x)
		}
	}
	d.Problems = union(d.Problems, now.Problems, func(a, b Problem) bool { return a == b })
	for _, c := range now.Considered {
		same := func(have Considered) bool {
			return have.Rule == c.Rule && have.Matched == c.Matched && have.Why == c.Why
		}
		if !slices.ContainsFunc(d.Considered, same) {
			c.Why += ", for the current version"
			d.Considered = append(d.Considered, c)
		}
	}
	d.Asks = union(d.Asks, now.Asks, func(a, b Ask) bool { return a.Rule == b.Rule })
	d.Rates = union(d.Rates, now.Rates, func(a, b Rate) bool { return a.Key == b.Key })
	d.Concurrency = union(d.Concurrency, now.Concurrency, func(a, b Concurrency) bool { return a.Key == b.Key })
	d.Quotas = union(d.Quotas, now.Quotas, func(a, b Quota) bool { return a.Key == b.Key })
	d.Networks = union(d.Networks, now.Networks, func(a, b Network) bool { return a.Rule == b.Rule })
	d.Redact = union(d.Redact, now.Redact, func(a, b string) bool { return a == b })
	d.MinIsolation = stronger(d.MinIsolation, now.MinIsolation)
	note := func(rule, reason string) {
		d.denies = append(d.denies, denial{rule, reason})
		d.consider(Considered{Rule: rule, Effect: Deny, Matched: true, Why: reason})
	}
	switch {
	case d.allow == "": // which says enough
	case d.req.Pins && !d.pin:
		note("haft/pin", "the call names a version that is not the current one, and no rule lets this caller do that: "+
			"call the tool without a version, or have a rule with effect: allow and pin: true, or with the digest "+
			"in digests")
	case now.allow == "" && !d.namesDigest:
		note("haft/current", "no rule allows the current version of the tool, and so none of its other versions")
	}
}

// union returns a with those of b that it does not have.
func union[T any](a, b []T, same func(a, b T) bool) []T {
	for _, x := range b {
		if !slices.ContainsFunc(a, func(have T) bool { return same(have, x) }) {
			a = append(a, x)
		}
	}
	return a
}
