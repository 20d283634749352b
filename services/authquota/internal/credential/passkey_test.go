package credential_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
	"opportunity.internal/services/authquota/internal/credential"
	"opportunity.internal/services/authquota/internal/testkit"
)

var (
	now   = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	ada   = credential.PasskeyOwner{Account: "acc_ada", Email: "ada@example.org"}
	grace = credential.PasskeyOwner{Account: "acc_grace", Email: "grace@example.org"}
)

func site(t testing.TB) credential.PasskeySite {
	t.Helper()
	s := credential.PasskeysAt("https://api.example", "Opportunity")
	require.True(t, s.Possible())
	return s
}

func added(t testing.TB, s credential.PasskeySite, d *testkit.SecurityKey,
	owner credential.PasskeyOwner) credential.Passkey {
	t.Helper()
	options, challenge, err := s.BeginAdd(owner, nil)
	require.NoError(t, err)
	return storetest.Must(s.FinishAdd(owner, challenge, d.Create(options), now))(t)
}

func TestAPasskeyIsAddedAndProven(t *testing.T) {
	s, d := site(t), testkit.NewSecurityKey(t, ada.Account)
	p := added(t, s, d, ada)
	require.Equal(t, ada.Account, p.Account)
	require.Equal(t, now, p.AddedAt)
	require.Nil(t, p.UsedAt)
	require.NotEmpty(t, p.Credential)
	require.NotContains(t, p.Record, "ada@example.org")

	options, challenge, err := s.BeginProof(ada, []credential.Passkey{p})
	require.NoError(t, err)
	require.Contains(t, options, `"userVerification":"required"`)
	require.Contains(t, options, p.Credential)
	used, err := s.FinishProof(ada, []credential.Passkey{p}, challenge, d.Answer(options), now.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, p.ID, used.ID)
	require.Equal(t, now.Add(time.Hour), *used.UsedAt)

	options, _, err = s.BeginAdd(ada, []credential.Passkey{p})
	require.NoError(t, err)
	require.Contains(t, options, p.Credential, "the same device is not asked twice")
}

func TestInvalidRegistrationIsRejected(t *testing.T) {
	s, d := site(t), testkit.NewSecurityKey(t, ada.Account)
	options, challenge, err := s.BeginAdd(ada, nil)
	require.NoError(t, err)
	other, otherChallenge, err := s.BeginAdd(ada, nil)
	require.NoError(t, err)
	elsewhere := *d
	elsewhere.Party.Origin = "https://evil.example"
	otherParty := *d
	otherParty.Party.ID = "evil.example"
	silent := testkit.NewSecurityKey(t, ada.Account)
	silent.Authenticator.Options.UserNotVerified = true
	right := d.Create(options)
	for name, answer := range map[string]string{
		"nothing": "", "no JSON": "{", "empty": "{}", "foreign challenge": d.Create(other),
		"foreign origin": elsewhere.Create(options),
		"foreign host":   otherParty.Create(options), "unverified": silent.Create(options),
		"changed": strings.Replace(right, `"attestationObject":"o`, `"attestationObject":"p`, 1),
	} {
		require.ErrorIs(t, storetest.Err(s.FinishAdd(ada, challenge, answer, now)), credential.ErrPasskeyRejected, name)
	}
	_, err = s.FinishAdd(ada, otherChallenge, right, now)
	require.ErrorIs(t, err, credential.ErrPasskeyRejected, "for another ask")
	_, err = s.FinishAdd(grace, challenge, right, now)
	require.ErrorIs(t, err, credential.ErrPasskeyRejected, "asked of another person")
	storetest.Must(s.FinishAdd(ada, challenge, right, now))(t)
}

func TestInvalidProofIsRejected(t *testing.T) {
	s, d, stranger := site(t), testkit.NewSecurityKey(t, ada.Account), testkit.NewSecurityKey(t, grace.Account)
	p, hers := added(t, s, d, ada), added(t, s, stranger, grace)
	has := []credential.Passkey{p}
	options, challenge, err := s.BeginProof(ada, has)
	require.NoError(t, err)
	other, otherChallenge, err := s.BeginProof(ada, has)
	require.NoError(t, err)
	elsewhere := *d
	elsewhere.Party.Origin = "http://api.example"
	silent := *d
	silent.Authenticator.Options.UserNotVerified = true
	right := d.Answer(options)
	forged := testkit.NewSecurityKey(t, ada.Account)
	forged.Credential.ID = d.Credential.ID
	for name, answer := range map[string]string{
		"nothing": "", "empty": "{}", "foreign challenge": d.Answer(other),
		"foreign origin": elsewhere.Answer(options),
		"unverified":     silent.Answer(options), "another person's": stranger.Answer(options),
		"another key": forged.Answer(options),
	} {
		_, err := s.FinishProof(ada, has, challenge, answer, now)
		require.ErrorIs(t, err, credential.ErrPasskeyRejected, name)
	}
	_, err = s.FinishProof(ada, has, otherChallenge, right, now)
	require.ErrorIs(t, err, credential.ErrPasskeyRejected, "replayed for another ask")
	_, err = s.FinishProof(ada, nil, challenge, right, now)
	require.ErrorIs(t, err, credential.ErrPasskeyRejected, "removed in between")
	_, err = s.FinishProof(grace, []credential.Passkey{hers}, challenge, right, now)
	require.ErrorIs(t, err, credential.ErrPasskeyRejected, "another account's challenge")
	_, err = s.FinishProof(ada, []credential.Passkey{hers}, challenge, right, now)
	require.ErrorContains(t, err, "another account")
	storetest.Must(s.FinishProof(ada, has, challenge, right, now))(t)
}

func TestClonedPasskeyIsRejected(t *testing.T) {
	s, d := site(t), testkit.NewSecurityKey(t, ada.Account)
	p := added(t, s, d, ada)
	prove := func(count uint32) error {
		options, challenge, err := s.BeginProof(ada, []credential.Passkey{p})
		require.NoError(t, err)
		d.Credential.Counter = count
		used, err := s.FinishProof(ada, []credential.Passkey{p}, challenge, d.Answer(options), now)
		if err == nil {
			require.Equal(t, count, used.Count)
			p = used
		}
		return err
	}
	require.NoError(t, prove(0), "one that does not count")
	require.NoError(t, prove(0))
	require.NoError(t, prove(7))
	require.ErrorIs(t, prove(7), credential.ErrPasskeyRejected)
	require.ErrorIs(t, prove(0), credential.ErrPasskeyRejected)
	require.NoError(t, prove(8))
}

func TestWherePasskeysArePossible(t *testing.T) {
	for url, want := range map[string]bool{
		"https://api.example": true, "https://api.example:8443": true, "http://localhost:8080": true,
		"http://a.localhost": true,
		"http://api.example": false, "http://127.0.0.1:8080": false, "https://192.0.2.1": false,
		"https://[2001:db8::1]": false,
	} {
		require.Equal(t, want, credential.PasskeysAt(url, "Opportunity").Possible(), url)
	}
}
