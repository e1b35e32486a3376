package secret

import (
	"slices"
	"strings"

	"haft"
)

// maxEnvName bounds the names of variables and secrets.
const maxEnvName = 128

// reserved are the variables that decide which code a process loads, how a shell
// or an interpreter reads its input, or where the next program is found. Setting one can
// run code, so callers may not set them. A name that ends with * stands for all names
// with that prefix.
var reserved = []string{
	// set by Haft: settings for a tool, and the arguments of a shell script
	"HAFT_*", "ARG_*",
	// loaders
	"LD_*", "DYLD_*", "GCONV_*", "GLIBC_*", "MALLOC_*", "LOCPATH", "NLSPATH", "GETCONF_DIR",
	"HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_*", "NIS_PATH", "TZDIR",
	// shells
	"PATH", "ENV", "BASH_*", "BASHOPTS", "SHELLOPTS", "IFS", "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT_COMMAND",
	"CDPATH", "GLOBIGNORE", "FUNCNEST", "SHELL", "ZDOTDIR", "KSH_ENV", "HISTFILE", "INPUTRC", "POSIXLY_CORRECT",
	// interpreters
	"PYTHON*", "NODE_*", "NPM_CONFIG_*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS",
	"_JAVA_OPTIONS", "CLASSPATH", "LUA_*", "PHPRC", "PHP_INI_SCAN_DIR", "DOTNET_STARTUP_HOOKS", "CORECLR_*", "COR_*",
	"ELECTRON_RUN_AS_NODE", "DENO_*", "BUN_*", "TS_NODE_*", "UV_*", "PIP_*", "VIRTUAL_ENV", "CONDA_*",
	// where programs look for code, settings and helpers
	"GIT_ASKPASS", "GIT_CONFIG*", "GIT_DIR", "GIT_EDITOR", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_PAGER",
	"GIT_PROXY_COMMAND",
	"GIT_SEQUENCE_EDITOR", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_TEMPLATE_DIR", "GIT_WORK_TREE", "SSH_ASKPASS*",
	"SSH_AUTH_SOCK", "EDITOR", "VISUAL", "PAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "MANPAGER",
	"TERMINFO", "TERMINFO_DIRS",
	"TERMCAP", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE",
	"CURL_CA_BUNDLE", "CURL_HOME", "REQUESTS_CA_BUNDLE", "WGETRC", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
	"FTP_PROXY", "NO_PROXY",
	"HOME", "TMPDIR", "TMP", "TEMP", "PWD", "OLDPWD", "XDG_*", "GCC_EXEC_PREFIX", "COMPILER_PATH",
	"GODEBUG", "GOTRACEBACK", "GOFLAGS",
}

// harmless are variables that reserved would cover, and that load or run nothing.
var harmless = []string{"NODE_ENV", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8"}

// CheckEnvName returns an error if callers may not set a variable of this name. Case does
// not matter: some programs read http_proxy, and some systems ignore case.
func CheckEnvName(name string) error {
	refuse := func(why string) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: why}
	}
	switch {
	case name == "":
		return refuse("a variable needs a name")
	case len(name) > maxEnvName:
		return refuse("the name of a variable has at most 128 characters")
	}
	for i := range len(name) {
		c := lower(name[i])
		if (c < 'a' || c > 'z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return refuse("the name of a variable has letters, digits and _ only, and does not begin with a digit")
		}
	}
	upper := strings.ToUpper(name)
	if slices.Contains(harmless, upper) {
		return nil
	}
	for _, r := range reserved {
		if prefix, ok := strings.CutSuffix(r, "*"); r == upper || ok && strings.HasPrefix(upper, prefix) {
			return refuse("the variable " + name + " is reserved and cannot be set")
		}
	}
	return nil
}
