package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"opportunity.internal/cmd/opportunity/internal/adminapi"
	"opportunity.internal/cmd/opportunity/internal/flags"
	"opportunity.internal/pkg/problem"
)

// Explain rewrites service errors about ids, fields and parameters in terms of the arguments and
// flags of cmd. An invalid value of a flag becomes a usage error.
func Explain(cmd *cobra.Command, args []string, err error) error {
	rejected := new(adminapi.RequestError)
	if !errors.As(err, &rejected) || rejected.Path == "" {
		return err
	}
	explained := *rejected
	explained.Path = ""
	if what := rejected.Path; rejected.Code == string(problem.NotFound) {
		id := ""
		if f := cmd.Flag(what); f != nil && f.Changed {
			id = f.Value.String()
		} else if len(args) > 0 {
			id = args[0]
		} else {
			return err
		}
		explained.Reason = fmt.Sprintf("unknown %s %q", what, id)
		for _, list := range []string{what + "s", "list"} {
			if c, _, err := cmd.Parent().Find([]string{list}); err == nil && c != cmd.Parent() {
				explained.Reason += fmt.Sprintf(`: see "%s"`, c.CommandPath())
				break
			}
		}
	} else {
		f := cmp.Or(cmd.Flag(flagOf[what]), cmd.Flag(what))
		if f == nil {
			return err
		}
		explained.Reason = "--" + f.Name + " " + rejected.Reason
		if f.Changed && rejected.Status == http.StatusBadRequest {
			return flags.Usage("%w", &explained)
		}
	}
	return &explained
}

// flagOf has the flags whose name is not that of their field or parameter, in some commands.
var flagOf = map[string]string{"useCase": "use-case", "expiresIn": "expires-in", "text": "search"}
