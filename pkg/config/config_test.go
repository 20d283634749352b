package config_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/config"
)

type store struct {
	URL string `env:"STORE_URL,required" doc:"Secret. Where the data lies."`
}

type settings struct {
	Store store
	Level slog.Level    `env:"LEVEL" envDefault:"INFO"`
	Wait  time.Duration `env:"WAIT" envDefault:"2s" doc:"How long to wait."`
	Names []string      `env:"NAMES"`
	Again store
	Clock func() `env:"-"`
}

func (s settings) Validate() error {
	if s.Wait > time.Minute {
		return errors.New("WAIT must be at most 1m")
	}
	return nil
}

func from(environment map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := environment[name]; return v, ok }
}

func TestLoad(t *testing.T) {
	got, err := config.Load[settings](from(map[string]string{"STORE_URL": "sqlite:///x", "LEVEL": "warn", "NAMES": "a,b"}))
	require.NoError(t, err)
	require.Equal(t, settings{Store: store{"sqlite:///x"}, Level: slog.LevelWarn, Wait: 2 * time.Second,
		Names: []string{"a", "b"}, Again: store{"sqlite:///x"}}, got)
}

func TestAllErrorsAreReportedWithoutValues(t *testing.T) {
	_, err := config.Load[settings](from(map[string]string{"LEVEL": "hunter2", "WAIT": "hunter2"}))
	for _, name := range []string{"STORE_URL", "LEVEL", "WAIT"} {
		require.ErrorContains(t, err, name)
	}
	require.NotContains(t, err.Error(), "hunter2")
	require.ErrorContains(t, err, "WAIT: use a duration such as 30d, 12h or 90m")

	_, err = config.Load[settings](from(map[string]string{"WAIT": "1d12h"}))
	require.ErrorContains(t, err, "WAIT must be at most 1m")

	_, err = config.Load[settings](from(map[string]string{"WAIT": "2m"}))
	require.ErrorContains(t, err, "WAIT must be at most 1m")
	require.ErrorContains(t, err, "STORE_URL")
}

func TestDescribe(t *testing.T) {
	var names []string
	for _, s := range config.Describe(settings{}) {
		names = append(names, s.Name)
		if s.Name == "STORE_URL" {
			require.True(t, s.Required)
			require.Equal(t, "Secret. Where the data lies.", s.Doc)
		}
	}
	require.Equal(t, []string{"STORE_URL", "LEVEL", "WAIT", "NAMES"}, names)
}

func TestAddressIsAPrefixOfOtherAddresses(t *testing.T) {
	for _, valid := range []string{"", "http://localhost:8080", "https://x.example/base", "https://x.example/a%20b/c",
		"https://[2001:db8::1]:8443"} {
		require.NoError(t, config.Address("OPPORTUNITY_PUBLIC_URL", valid), valid)
	}
	for _, invalid := range []string{
		"x.example", "ftp://x.example", "https://", "https://x.example/", "https://x.example/base/",
		"https://u:secret@x.example",
		"https://x.example?x", "https://x.example?", "https://x.example/base?x=1", "https://x.example#x",
		"https://x.example/base#", "https://x.example/?#",
	} {
		err := config.Address("OPPORTUNITY_PUBLIC_URL", invalid)
		require.EqualError(t, err,
			"OPPORTUNITY_PUBLIC_URL must be an http or https URL without a trailing slash, a query or a fragment, with a "+
				"port from 1 to 65535 or none", invalid)
	}
}

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
