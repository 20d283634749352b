package adminapi

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/api"
)

// Defaults of flags and environment variables. `opportunity up` uses the same.
const (
	DefaultAdmin   = "127.0.0.1:8081"
	DefaultDataDir = ".opportunity"
	TokenFile      = "operator-token" // in the data directory
)

// Flags adds the flags for NewClient: those of the admin listener and of the data directory.
func Flags(f *pflag.FlagSet, adminURL, dataDir *string) {
	f.StringVar(adminURL, "admin-url", cmp.Or(os.Getenv("OPPORTUNITY_ADMIN_URL"), "http://"+DefaultAdmin),
		"the gateway's admin listener, also from OPPORTUNITY_ADMIN_URL")
	f.StringVar(dataDir, "data-dir", cmp.Or(os.Getenv("OPPORTUNITY_DATA_DIR"), DefaultDataDir),
		`data directory of "opportunity up", which holds the operator token; also from OPPORTUNITY_DATA_DIR.
OPPORTUNITY_OPERATOR_TOKEN takes precedence`)
}

// NewClient returns a Client with the operator token from the environment or the data directory of
// "opportunity up". The token is only sent, never printed. Without a token, the Code of the error
// is CodeNoToken.
func NewClient(adminURL, dataDir string) (Client, error) {
	if err := CheckURL("admin-url", adminURL); err != nil {
		return Client{}, err
	}
	token, file := os.Getenv("OPPORTUNITY_OPERATOR_TOKEN"), ""
	if token == "" {
		file = filepath.Join(dataDir, TokenFile)
		text, err := os.ReadFile(file)
		if err != nil {
			return Client{}, &Failure{CodeNoToken,
				fmt.Sprintf("no operator token: OPPORTUNITY_OPERATOR_TOKEN is not set, and %v. "+
					`Set it, or use --data-dir with the directory of "opportunity up".`, err)}
		}
		token = strings.TrimSpace(string(text))
	}
	return Client{URL: adminURL, Token: token, TokenFile: file, Actor: Actor(), HTTP: http.DefaultClient}, nil
}

// Actor returns the name of the person at this machine, or "" if the environment does not have it.
func Actor() string {
	return cmp.Or(strings.TrimSpace(os.Getenv("OPPORTUNITY_ACTOR")), os.Getenv("USER"), os.Getenv("LOGNAME"))
}

// CheckURL returns the usage error for the value of a flag that is not an HTTP URL.
func CheckURL(flag, value string) error {
	if api.ValidURL(value) {
		return nil
	}
	return flags.Usage("invalid --%s %q: use an http or https URL such as http://%s", flag, value, DefaultAdmin)
}
