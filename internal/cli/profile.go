package cli

import (
	"os"

	"github.com/spf13/pflag"

	"haft/internal/exit"
	"haft/internal/userconfig"
)

// setFromConfig sets flags from the profile of the user's configuration, where neither the command
// line nor the environment has them. They do not count as given. A server in it does not count if the
// command line or the environment says where the data is.
func (p *Profile) setFromConfig(f *pflag.FlagSet) error {
	config, err := userconfig.Load(userconfig.Path(os.Getenv))
	if err != nil {
		return exit.Misuse(err)
	}
	settings, err := config.Profile(p.named)
	if err != nil {
		return exit.Misuse(err)
	}
	elsewhere := f.Changed("data") || f.Changed("database") || os.Getenv("HAFT_DATA") != "" ||
		os.Getenv("HAFT_DATABASE") != ""
	for name, value := range settings {
		fl := f.Lookup(name)
		if fl == nil || fl.Changed || os.Getenv(variable(name)) != "" || name == "server" && elsewhere ||
			name == "print" && p.JSON {
			continue
		}
		if err := fl.Value.Set(value); err != nil {
			return exit.Misuse(err)
		}
	}
	return nil
}
