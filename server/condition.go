package server

import (
	"net/http"
	"slices"
	"strings"

	"haft"
)

// Condition is what a write demands of the resource (RFC 9110, 13.1). It is checked in the
// transaction of the write.
type Condition struct {
	IfMatch     string `header:"If-Match" maxLength:"1000" doc:"ETags, one of which it must have; * means that it must exist."`
	IfNoneMatch string `header:"If-None-Match" maxLength:"1000" doc:"With *, it must not exist."`
}

// errPrecondition is the answer to a condition that does not hold.
var errPrecondition = problem(http.StatusPreconditionFailed,
	"it is not what If-Match or If-None-Match says; look again first")

// quote returns the ETag of a revision.
func quote(revision string) string { return `"` + revision + `"` }

// tags reads a list of ETags. A weak one (W/) counts as a strong one, since the server has only
// strong ones.
func tags(list string) []string {
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		all = append(all, strings.Trim(strings.TrimPrefix(strings.TrimSpace(one), "W/"), `"`))
	}
	return all
}

// revision returns the condition for the write: a revision, [haft.IfNone], or "" for none.
// Current is the present revision, or "" if the resource does not exist. A condition that
// already fails is an error.
func (c Condition) revision(current string) (string, error) {
	if c.IfNoneMatch != "" {
		if c.IfNoneMatch != "*" || c.IfMatch != "" {
			return "", &haft.Error{Code: haft.CodeInvalid, Message: "for a write If-None-Match is *, without If-Match"}
		}
		if current != "" {
			return "", errPrecondition
		}
		return haft.IfNone, nil
	}
	switch {
	case c.IfMatch == "":
		return "", nil
	case current != "" && (strings.TrimSpace(c.IfMatch) == "*" || slices.Contains(tags(c.IfMatch), current)):
		return current, nil
	}
	return "", errPrecondition
}

// RemoveIf is what a removal demands of the resource.
type RemoveIf struct {
	IfMatch string `header:"If-Match" maxLength:"1000" doc:"ETags, one of which it must have; * means that it must exist."`
}

// failed makes of a conflict what it means where there was a condition.
func (c Condition) failed(err error) error {
	if c != (Condition{}) && haft.CodeOf(err) == haft.CodeConflict {
		return errPrecondition
	}
	return err
}
