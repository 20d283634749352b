package authn

import (
	"fmt"

	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/problem"
)

func TestRead(t *testing.T) {
	key := apikey.Generate(apikey.Live)
	token := key.Reveal()
	older, err := apikey.ParseOlderForm(`jb-[0-9]{4}`)
	require.NoError(t, err)
	for _, header := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token + " "} {
		got, err := Read([]string{header}, older)
		require.NoError(t, err, header)
		require.Equal(t, KeyOf(key), got)
		require.Equal(t, key.Digests([][]byte{pepper, olderPepper}), got.digests([][]byte{pepper, olderPepper}))
		require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", got, got, got, got), token)
	}
	got, err := Read([]string{"Bearer jb-4711"}, older)
	require.NoError(t, err)
	require.Equal(t, apikey.OlderSum(got.of).Digests([][]byte{pepper}), got.digests([][]byte{pepper}))

	for want, headers := range map[problem.Code][][]string{
		problem.MissingAPIKey: {nil, {""}, {"Bearer"}, {"Bearer  "}, {token}, {"Basic " + token}, {"Bearer" + token},
			{"Bearer " + token, "Bearer " + token}},
		problem.InvalidAPIKey: {
			{"Bearer " + token[:len(token)-1]}, {"Bearer jb-471"}, {"Bearer " + token + " " + token},
		},
	} {
		for _, h := range headers {
			_, err := Read(h, older)
			require.Equal(t, want, problem.Of(err).Code, h)
			require.NotContains(t, err.Error(), token)
		}
	}
	_, err = Read([]string{"Bearer jb-4711"}, apikey.OlderForm{})
	require.Equal(t, problem.InvalidAPIKey, problem.Of(err).Code, "no older form is configured")
}
