package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

func TestLint(t *testing.T) {
	for name, given := range cases(t) {
		t.Run(name, func(t *testing.T) {
			result := lint.AllWithKubeVersion(chartDir, given, namespace,
				&chartutil.KubeVersion{Version: "v1.35.0", Major: "1", Minor: "35"})
			for _, m := range result.Messages {
				require.Less(t, m.Severity, support.WarningSev, m.Error())
			}
		})
	}
}
