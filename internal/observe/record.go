package observe

import (
	"slices"

	"haft"
)

// A Record collects what one call touches, over all of its tries. The zero value records nothing. It is used by one
// goroutine at a time.
//
// Lifecycle: Begin → Visit or Withhold → End.
type Record struct {
	touched haft.Touched
	audited bool
	asker   func(haft.Touched)
}

// maxKept is how many accesses of a call the audit keeps.
const maxKept = 200

// Begin returns the function that is given what a run of a call touches, or nil if neither the settings of the tool
// want the call observed nor somebody whom ask returns; a nil ask returns nobody.
func (r *Record) Begin(ask func(haft.Call) (func(haft.Touched), bool), c haft.Call,
	v haft.Version) func(haft.Touched) {
	files := false
	if r.audited = v.Settings.AuditFiles; ask != nil {
		r.asker, files = ask(c)
	}
	if !files && !r.audited {
		return nil
	}
	return func(t haft.Touched) {
		r.touched = Merge(r.touched, t)
	}
}

// Visit replaces every name that the audit keeps by what clean makes of it.
func (r *Record) Visit(clean func(string) string) {
	r.touched = keep(r.touched)
	for i := range r.touched.Accesses {
		r.touched.Accesses[i].Name = clean(r.touched.Accesses[i].Name)
	}
}

// Withhold keeps only that something was touched.
func (r *Record) Withhold(text string) {
	r.Visit(func(string) string { return text })
	r.touched.Accesses = add(nil, r.touched.Accesses...)
}

// End gives what was touched to whoever asked, with the hosts, and returns what the audit keeps of it, which has the
// hosts elsewhere. It is nil if the audit keeps nothing.
func (r *Record) End(hosts []haft.Access) *haft.Touched {
	if r.asker != nil {
		t := r.touched
		t.Accesses = add(slices.Clone(t.Accesses), hosts...)
		r.asker(t)
	}
	if !r.audited {
		return nil
	}
	kept := keep(r.touched)
	return &kept
}

// Merge returns what was touched in either of two runs.
func Merge(a, b haft.Touched) haft.Touched {
	if b.IO == nil {
		b.IO = a.IO
	} else if a.IO != nil {
		b.IO = &haft.IO{Reads: a.IO.Reads + b.IO.Reads, Writes: a.IO.Writes + b.IO.Writes,
			ReadBytes: a.IO.ReadBytes + b.IO.ReadBytes, WrittenBytes: a.IO.WrittenBytes + b.IO.WrittenBytes}
	}
	return haft.Touched{Observed: a.Observed || b.Observed, Cut: a.Cut || b.Cut, IO: b.IO,
		Accesses: add(a.Accesses, b.Accesses...)}
}

// keep returns as much as the audit keeps.
func keep(t haft.Touched) haft.Touched {
	if len(t.Accesses) > maxKept {
		t.Accesses, t.Cut = t.Accesses[:maxKept], true
	}
	return t
}

// add adds those of more that are not in list.
func add(list []haft.Access, more ...haft.Access) []haft.Access {
	seen := make(map[haft.Access]bool, len(list)+len(more))
	for _, a := range list {
		seen[a] = true
	}
	for _, a := range more {
		if !seen[a] {
			seen[a] = true
			list = append(list, a)
		}
	}
	return list
}
