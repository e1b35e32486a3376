package app

import (
	"slices"

	"haft/internal/egress"
)

// egressConfig returns how outgoing connections are made: by cfg and by the environment,
// which has HAFT_ALLOW_RANGES (ranges of private addresses, with commas) and
// HAFT_ALLOW_NAMES (local names).
func (cfg ServiceConfig) egressConfig() (egress.Config, error) {
	out := cfg.Egress
	ranges, err := egress.Ranges("HAFT_ALLOW_RANGES")
	if err != nil {
		return out, err
	}
	out.Allow = slices.Concat(cfg.Allow, out.Allow, ranges)
	out.Names = slices.Concat(out.Names, egress.List("HAFT_ALLOW_NAMES"))
	return out, nil
}
