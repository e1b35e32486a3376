package egress

import (
	"net/netip"
	"os"
	"strings"

	"haft"
)

// List reads a variable of the environment that is a list with commas.
func List(name string) []string {
	var list []string
	for part := range strings.SplitSeq(os.Getenv(name), ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// Ranges reads a variable of the environment that is a list of ranges.
func Ranges(name string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, part := range List(name) {
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: name + " is not a list of ranges such as 10.0.0.0/8", Err: err}
		}
		list = append(list, p)
	}
	return list, nil
}
