package app

import (
	"net/netip"
	"os"
	"slices"
	"strings"

	"haft"
	"haft/internal/egress"
)

// egressConfig returns how outgoing connections are made: by cfg and by the environment,
// which has HAFT_ALLOW_RANGES (ranges of private addresses, with commas) and
// HAFT_ALLOW_NAMES (local names).
func (cfg ServiceConfig) egressConfig() (egress.Config, error) {
	out := cfg.Egress
	ranges, err := parsePrefixes("HAFT_ALLOW_RANGES")
	if err != nil {
		return out, err
	}
	out.Allow = slices.Concat(cfg.Allow, out.Allow, ranges)
	out.Names = slices.Concat(out.Names, readList("HAFT_ALLOW_NAMES"))
	return out, nil
}

// readList reads a variable that is a list with commas.
func readList(name string) []string {
	var list []string
	for part := range strings.SplitSeq(os.Getenv(name), ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// parsePrefixes reads a variable that is a list of ranges.
func parsePrefixes(name string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, part := range readList(name) {
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: name + " is not a list of ranges such as 10.0.0.0/8", Err: err}
		}
		list = append(list, p)
	}
	return list, nil
}
