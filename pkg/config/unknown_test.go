package config_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/config"
)

func TestUnknownSettingsAreNamedWithTheNearest(t *testing.T) {
	require.Equal(t, []string{
		"unknown setting OPPORTUNITY_KEY_PEPPER is ignored: did you mean OPPORTUNITY_KEY_PEPPERS?",
		"unknown setting OPPORTUNITY_LOGLEVEL is ignored: did you mean OPPORTUNITY_LOG_LEVEL?",
		"unknown setting OPPORTUNITY_SERVICE_CAPACTY is ignored: did you mean OPPORTUNITY_SERVICE_CAPACITY?",
		"unknown setting OPPORTUNITY_SOMETHING_THAT_RESEMBLES_NOTHING is ignored",
		"unknown setting opportunity_tiers is ignored: did you mean OPPORTUNITY_TIERS?",
	}, config.Unknown([]string{
		"PATH=/bin", "OPPORTUNITY_LOG_LEVEL=DEBUG", "OPPORTUNITY_LOGLEVEL=secret", "OPPORTUNITY_KEY_PEPPER=secret",
		"OPPORTUNITY_ADMIN_URL=x",
		"OPPORTUNITY_SERVICE_CAPACTY=1", "OPPORTUNITY_TEST_QUICK=1", "OPPORTUNITY_SOMETHING_THAT_RESEMBLES_NOTHING=",
		"opportunity_tiers=x",
	}))
}

func TestErrorsNameTheAllowedValues(t *testing.T) {
	for name, want := range map[string]string{"LEVEL": "LEVEL: use DEBUG, INFO, WARN or ERROR",
		"ON": "ON: use true or false", "LIMIT": "LIMIT: use a whole number"} {
		_, err := config.Load[struct {
			Level slog.Level `env:"LEVEL"`
			On    bool       `env:"ON"`
			Limit int        `env:"LIMIT"`
		}](from(map[string]string{name: "hunter2"}))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
