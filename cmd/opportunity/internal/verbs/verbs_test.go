package verbs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"opportunity.internal/cmd/opportunity/internal/verbs"
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/storetest"
)

// verb executes a command line against an admin listener.
func verb(t *testing.T, adminURL, stdin string, args ...string) (out, errs string, err error) {
	t.Helper()
	return verbFrom(t, adminURL, strings.NewReader(stdin), args...)
}

// verbFrom is verb with any standard input.
func verbFrom(t *testing.T, adminURL string, stdin io.Reader, args ...string) (out, errs string, err error) {
	t.Helper()
	root, o, e := newRoot(t, adminURL, stdin, args...)
	err = root.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

// newRoot returns a root command with a command line of ann.
func newRoot(
	t *testing.T, adminURL string, stdin io.Reader, args ...string,
) (root *cobra.Command, out, errs *bytes.Buffer) {
	t.Helper()
	t.Setenv("OPPORTUNITY_OPERATOR_TOKEN", token)
	t.Setenv("OPPORTUNITY_ACTOR", "ann")
	root, out, errs = &cobra.Command{Use: "opportunity", SilenceErrors: true, SilenceUsage: true}, new(bytes.Buffer),
		new(bytes.Buffer)
	root.AddCommand(verbs.Commands()...)
	root.SetOut(out)
	root.SetErr(errs)
	root.SetIn(stdin)
	root.SetArgs(append(args, "--admin-url", adminURL))
	return root, out, errs
}

const nowhere = "http://127.0.0.1:1"

// verbCase has the response to a verb, its requests, and what it prints: all of it, or a part that
// begins with "...".
type verbCase struct{ response, sent, out, errs, err string }

func checkVerbs(t *testing.T, cases map[string]verbCase) {
	t.Helper()
	for line, c := range cases {
		t.Run(line, func(t *testing.T) {
			client, sent := admin(t, http.StatusOK, c.response)
			out, errs, err := verb(t, client.URL, "{}", strings.Fields(line)...)
			require.Equal(t, c.err == "", err == nil, err)
			require.Contains(t, fmt.Sprint(err), c.err)
			require.Equal(t, c.sent, sent.String())
			for _, text := range [][2]string{{c.out, out}, {c.errs, errs}} {
				if part, cut := strings.CutPrefix(text[0], "..."); cut {
					require.Contains(t, text[1], part)
				} else {
					require.Equal(t, text[0], text[1])
				}
			}
		})
	}
}

const (
	isTerm  = "not a terminal: add --yes"
	nothing = "nothing was changed"
)

func TestVerbsOfKeysAndAccounts(t *testing.T) {
	const (
		issued = `{"id":"key_1","key":"oda_live_x","account":"acc_1","tier":"developer","expiresAt":"2027-11-20T10:00:00Z"}`
		shown  = "key      oda_live_x\nid       key_1\naccount  acc_1\ntier     developer\nexpires  2027-11-20T10:00:00Z\n"
		// Repeating a decision returns the first one, so the verb says whose decision it is.
		decided = `{"id":"req_1","state":"collected","decidedBy":"bea","decidedAt":"2026-11-20T10:00:00Z"}`
		older   = `{"applied":true,"created":1,"refused":[],"warnings":["OPPORTUNITY_OLDER_KEYS is not set"]}`
		warning = "warning: OPPORTUNITY_OLDER_KEYS is not set\n"
		closed  = `{"id":"acc_1","status":"closed","tier":"free","person":{"closedAt":"2026-11-20T09:00:00Z"}}`
	)
	checkVerbs(t, map[string]verbCase{
		"keys issue --tier free --use-case test": {issued,
			`POST /operator/v1/keys ann {"tier":"free","useCase":"test","test":false}`, shown, "", ""},
		"keys issue --account acc_1 --use-case staging": {issued,
			`POST /operator/v1/keys ann {"useCase":"staging","account":"acc_1","test":false}`, shown, "", ""},
		"keys issue --use-case staging": {err: "with --account, the key has the account's tier"},
		"keys revoke ../accounts/x": {"", "POST /operator/v1/keys/..%2Faccounts%2Fx/revoke ann ",
			"revoked: ../accounts/x\n", "", ""},
		"keys revoke key_1 --leaked": {"", `POST /operator/v1/keys/key_1/revoke ann {"leaked":true}`,
			"revoked: key_1\n", "", ""},
		"keys approve req_1": {decided, "POST /operator/v1/keys/requests/req_1/approve ann ",
			"collected: req_1 (by bea, 2026-11-20 10:00:00Z)\n", "", ""},
		"keys decline req_1 --reason no --output json": {decided,
			`POST /operator/v1/keys/requests/req_1/decline ann {"reason":"no"}`, decided + "\n", "", ""},
		"keys import -": {older, "POST /operator/v1/keys/import ann {}",
			"created 1, unchanged 0\n", warning, ""},
		"keys import - --output json": {older, "POST /operator/v1/keys/import ann {}", older + "\n", warning, ""},
		"accounts show acc_1":         {closed, "GET /operator/v1/accounts/acc_1 ann ", "...Status      closed\n", "", ""},
		"accounts grant acc_1 free": {"", `POST /operator/v1/accounts/acc_1/grant ann {"tier":"free"}`,
			"granted free: acc_1\n", "", ""},
	})
}

func TestAnnounce(t *testing.T) {
	const (
		preview   = `{"id":"v2","subject":"API change: V2","text":"{}\n","recipients":3,"posted":0,"createdAt":null}`
		existing  = `{"id":"v2","recipients":3,"posted":2,"createdAt":"2027-01-02T03:04:05Z"}`
		announced = "announced v2 at 2027-01-02 03:04:05Z: 2 of 3 mails queued; repeat the command to see its progress\n"
		announce  = "announce v2 --kind api-change --subject V2 --text -"
		announces = `POST /operator/v1/announcements ann {"id":"v2","kind":"api-change","subject":"V2","text":"{}","dryRun":`
	)
	checkVerbs(t, map[string]verbCase{
		announce:            {preview, announces + "true}", "", "Subject: API change: V2\n\n{}\n\nRecipients: 3.\n", isTerm},
		announce + " --yes": {existing, announces + "false}", announced, "", ""},
		// it exists already, so the verb does not ask
		announce + " --output text": {existing, announces + "true}" + announces + "false}", announced, "", ""},
	})
	_, _, err := verb(t, nowhere, "", strings.Fields(announce)...)
	require.ErrorContains(t, err, "the text is empty")
}

// wrongListings is the response to a change of listings with mistakes.
const wrongListings = `{"applied":false,"refused":[` +
	`{"line":1,"id":"nope","problems":[{"path":"id","code":"unknown_listing","message":"there is no such listing"}]},` +
	`{"line":2,"id":"a","problems":[{"path":"sources","message":"name one"}]},` +
	`{"line":3,"id":"b","problems":[{"path":"sources","message":"name one"}]}]}`

func TestPublish(t *testing.T) {
	const (
		publish = "POST /operator/v1/listings/publish"
		one     = `{"applied":true,"updated":1,"published":1,"refused":[]}`
		three   = `{"applied":false,"updated":3,"published":3,"neverReviewed":2,"refused":[]}`
		asks    = "3 listings would become public, 2 of them never reviewed.\n"
	)
	checkVerbs(t, map[string]verbCase{
		"listings publish a":     {one, publish + ` ann {"ids":["a"]}`, "published 1, unchanged 0\n", "", ""},
		"listings publish --all": {three, publish + `?dryRun=true ann {"all":true}`, "", asks, isTerm},
		"listings publish a b c": {three, publish + `?dryRun=true ann {"ids":["a","b","c"]}`, "", asks, isTerm},
		"listings publish --all --yes": {`{"applied":true,"updated":3}`, publish + ` ann {"all":true}`,
			"published 3, unchanged 0\n", "", ""},
		"listings publish a b": {one, // only one of them becomes public
			publish + `?dryRun=true ann {"ids":["a","b"]}` + publish + ` ann {"ids":["a","b"]}`,
			"published 1, unchanged 0\n", "", ""},
		"listings publish nope a b": {wrongListings, publish + `?dryRun=true ann {"ids":["nope","a","b"]}`, "",
			"unknown listing \"nope\"\na, b: sources: name one\n", nothing},
	})
}

func TestImportOfListings(t *testing.T) {
	const (
		imports = "POST /operator/v1/listings/import"
		many    = `{"applied":true,"created":3,"published":2,"neverReviewed":1,"keptWithdrawn":["a","b"],"refused":[]}`
		created = "created 3, updated 0, unchanged 0; published 2, 1 of them never reviewed\n"
		stays   = "2 stay withdrawn although the file has them as published: a, b\n" +
			"publish them again with: opportunity listings publish ID...\n"
		three      = `{"applied":false,"updated":3,"published":3,"neverReviewed":2,"refused":[]}`
		asks       = "3 listings would become public, 2 of them never reviewed.\n"
		wrongLines = "line 1 (id nope): id: there is no such listing\nsources: name one (2 lines: 2, 3)\n"
		dryRun     = `{"created":1,"updated":1,"unchanged":3,"published":1,"needsReview":1,"neverReviewed":1,` +
			`"keptWithdrawn":["a","b"],"changes":[{"id":"b","change":"created","published":true},` +
			`{"id":"a","change":"updated","needsReview":true,"fields":[{"field":"startingCost","old":"None",` +
			`"new":"éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé"},` +
			`{"field":"facts.remote","old":null,"new":true}]}],"refused":[]}`
		dryRunText = `+ b  published
~ a  turns needs-review
    startingCost: "None" -> "éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé...
    facts.remote: null -> true
would create 1, update 1, leave 3 unchanged; publish 1; turn 1 needs-review
of those to publish, 1 never reviewed
`
	)
	checkVerbs(t, map[string]verbCase{
		"listings import --yes -": {many, imports + " ann {}", created + stays, "", ""},
		"listings import -":       {three, imports + "?ask=true ann {}", "", asks, isTerm},
		"listings import - --yes": {wrongListings, imports + " ann {}", "", wrongLines, nothing},
		"listings import --dry-run -": {dryRun, imports + "?dryRun=true ann {}",
			dryRunText + stays + "nothing was changed\n", "", ""},
		"listings import --dry-run - --output json": {dryRun, imports + "?dryRun=true ann {}", dryRun + "\n", "", ""},
		"listings import - --dry-run":               {wrongListings, imports + "?dryRun=true ann {}", "", wrongLines, nothing},
	})
}

func TestVerbsThatShowListings(t *testing.T) {
	const (
		listed = `{"listings":[` +
			`{"id":"a","company":"=Acme, Ltd","category":"sell","visibility":"private","status":"unverified"},` +
			`{"id":"b","company":"B","category":"online","visibility":"published","status":"stale",` +
			`"lastCheckedAt":"2026-11-02T00:00:00Z"}],"next":"b"}`
		table = `ID  COMPANY     CATEGORY  VISIBILITY  STATUS      LAST REVIEW
a   =Acme, Ltd  sell      private     unverified  never
b   B           online    published   stale       2026-11-02 00:00:00Z
There are more: continue with --after b
`
		detail = `{"listing":{"id":"a","company":{"name":"Acme","website":"https://acme.example/"},"category":"sell",` +
			`"summary":"Work.","sources":[{"url":"https://s.example/","checkedAt":"2026-11-18"}],` +
			`"visibility":"withdrawn","curation":{"notes":"Two\nlines."}},` +
			`"record":{"id":"a","verification":{"status":"unverified"},"facts":{"remote":true}},` +
			`"updatedAt":"2026-11-20T08:00:00Z",` +
			`"changes":[{"at":"2026-11-20T08:00:00Z","actor":"bob","action":"withdrawn","fields":["visibility"]}]}`
		visible = "Visibility     withdrawn\nStatus         unverified\nLast review    never\n" +
			"Published      never\nChanged        2026-11-20 08:00:00Z\nSummary        Work.\n"
	)
	checkVerbs(t, map[string]verbCase{
		"listings list --visibility private --search x --limit 2 --after 0": {listed,
			"GET /operator/v1/listings?after=0&limit=2&text=x&visibility=private ann ", table, "", ""},
		"listings list --output json":   {listed, "GET /operator/v1/listings ann ", listed + "\n", "", ""},
		"listings show a/b":             {detail, "GET /operator/v1/records/a%2Fb ann ", "..." + visible, "", ""},
		"listings show a --output json": {detail, "GET /operator/v1/records/a ann ", detail + "\n", "", ""},
		"listings schema":               {out: string(listingfile.Schema)},
		"listings schema --example":     {out: string(listingfile.Example)},
	})
}

func TestReviewsDue(t *testing.T) {
	const (
		due = `{"records":[{"id":"a","company":"=cmd|' /C calc'!A0","category":"online","status":"needs-review",` +
			`"dueAt":"2026-11-18T09:30:00Z","reasons":[` +
			`{"why":"edit","at":"2026-11-18T09:30:00Z","fields":["facts","startingCost"],"actor":"ann"},` +
			`{"why":"link-check","at":"2026-11-19T09:00:00Z","outcome":"closed","note":"answered\n404"}]},` +
			`{"id":"c","company":"C, \"Inc\"","category":"host","status":"verified","dueAt":"2026-11-24T09:00:00Z",` +
			`"lastCheckedAt":"2026-11-10T09:00:00Z","reasons":[{"why":"never-reviewed","at":"2026-11-19T10:00:00Z"},` +
			`{"why":"stale","at":"2026-11-24T09:00:00Z"}]},` +
			`{"id":"d","company":"D","category":"host","status":"unverified","reasons":[{"why":"never-reviewed"}]}]}`
		edited = "changed 2026-11-18 09:30: facts, startingCost by ann; " +
			"link check of 2026-11-19 09:00: closed (answered 404)"
		old   = "never reviewed, published 2026-11-19 10:00; stale after 2026-11-24 09:00"
		table = "DUE                   ID  CATEGORY  STATUS        WHY\n" +
			"2026-11-18 09:30:00Z  a   online    needs-review  " + edited + "\n" +
			"2026-11-24 09:00:00Z  c   host      verified      " + old + "\n" +
			"-                     d   host      unverified    never reviewed\n3 due\n"
		csv = "due_at,id,company,category,status,last_checked_at,why\n" +
			`2026-11-18T09:30:00Z,a,'=cmd|' /C calc'!A0,online,needs-review,,"` + edited + "\"\n" +
			`2026-11-24T09:00:00Z,c,"C, ""Inc""",host,verified,2026-11-10T09:00:00Z,"` + old + "\"\n" +
			",d,D,host,unverified,,never reviewed\n"
	)
	checkVerbs(t, map[string]verbCase{
		"reviews due --within 7d":   {due, "GET /operator/v1/reviews/due?within=168h0m0s ann ", table, "", ""},
		"reviews due --output csv":  {due, "GET /operator/v1/reviews/due ann ", csv, "", ""},
		"reviews due --output json": {due, "GET /operator/v1/reviews/due ann ", due + "\n", "", ""},
	})
}

func TestVerbsOfEventsAndLinks(t *testing.T) {
	const newer = `{"applied":false,"refused":[],"newer":[{"slug":"a","checkType":"review","outcome":"closed",` +
		`"checkedAt":"2026-11-20T09:01:00Z","recordedAt":"2026-11-20T10:00:00Z","actor":"eve",` +
		`"note":"The site\nis gone."}]}`
	checkVerbs(t, map[string]verbCase{
		"events append -": {newer, "POST /operator/v1/events/append ann {}", "",
			"...  a: review closed, checked 2026-11-20 09:01:00Z, recorded 2026-11-20 10:00:00Z by eve " +
				"(The site is gone.)\n", nothing},
		"events append - --output json": {newer, "POST /operator/v1/events/append ann {}", newer + "\n", "", nothing},
		"links check a": {`{"pages":2,"note":"Soon."}`, "POST /operator/v1/records/a/read ann ",
			"2 pages are due. Soon.\n", "", ""},
		"links check b": {`{"pages":0,"note":"It is off."}`, "POST /operator/v1/records/b/read ann ",
			"It is off.\n", "", ""},
	})
}

func TestBillingReconcile(t *testing.T) {
	const (
		reconcile = "POST /operator/v1/billing/reconcile ann "
		compared  = `{"customers":2,"subscriptions":3,"failed":0,"differences":[` +
			`{"account":"acc_1","subscription":"sub_1","field":"cancelAtPeriodEnd","had":"false","has":"true",` +
			`"healed":true},` +
			`{"account":"acc_2","subscription":"sub_2","field":"exists","had":"true","has":"false","healed":false}]}`
	)
	checkVerbs(t, map[string]verbCase{
		"billing reconcile": {compared, reconcile, "" +
			"ACCOUNT  SUBSCRIPTION  FIELD              HAD    HAS    HEALED\n" +
			"acc_1    sub_1         cancelAtPeriodEnd  false  true   yes\n" +
			"acc_2    sub_2         exists             true   false  no\n" +
			"\ncompared 3 subscriptions of 2 customers: 2 differences, 1 healed; 0 could not be compared\n", "", ""},
		"billing reconcile --output text": {`{"customers":2,"subscriptions":2,"failed":1,"differences":[]}`, reconcile,
			"compared 2 subscriptions of 2 customers: 0 differences, 0 healed; 1 could not be compared\n", "",
			"some subscriptions could not be compared"},
	})
}

func TestLintNeedsNoAPI(t *testing.T) {
	example := string(listingfile.Example)
	_, listing, _ := strings.Cut(example, "\n")
	bad := example + strings.Replace(listing, `"online"`, `"offline"`, 1) + strings.Repeat("{}\n", api.MaxReported)
	const times = `"checkedAt":"2026-01-02T03:04:05Z","checkType":"review"`
	right := apitest.Line(apitest.Verified("a", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))) + "\n"
	thin := right + `{"slug":"a",` + times + `,"outcome":"verified"}`
	closed := `{"slug":"a",` + times + `,"outcome":"closed","facts":` +
		apitest.WholeFacts(`{"applicationStatus":"open"}`) + `}`
	for _, c := range []struct {
		line, stdin, out string
		errs             []string
		err              string
	}{
		{"listings lint -", example, "1 listings, no problems\n", nil, ""},
		{"listings lint " + csvFile(t), "", "1 listings, no problems\n", nil, ""},
		{"listings lint -", bad, "", []string{
			`category: must be one of online, sell, local, host; "" is none ` +
				"(200 lines: 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, ...)\n",
			"line 3 (id maple-transcripts): id: is on line 2 already\n",
			"company.name: must not be empty (200 lines: 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, ...)\n",
		}, "an import would reject the file"},
		{"listings lint - --output json", bad, `"valid":false`, nil, "an import would reject the file"},
		{"listings lint " + filepath.Join(t.TempDir(), "none"), "", "", nil, "no such file"},
		{"events lint -", right, "1 events, no problems\n", nil, ""},
		{"events lint -", thin, "", []string{"line 2 (id a): sourceUrls: a verified review needs at least one source URL\n"},
			"an append would reject the file"},
		{"events lint - --output json", thin, `"events":1`, nil, "an append would reject the file"},
		{"events lint -", closed, "1 events, no problems\n", []string{
			"line 1 (id a): facts.applicationStatus: is recorded as closed, like the outcome\n",
		}, ""},
	} {
		out, errs, err := verb(t, nowhere, c.stdin, strings.Fields(c.line)...)
		require.Contains(t, fmt.Sprint(err), c.err)
		require.Equal(t, c.err == "", err == nil, c.line)
		require.Equal(t, c.out == "", out == "", c.line)
		require.Contains(t, out, c.out)
		for _, problem := range c.errs {
			require.Contains(t, errs, problem)
		}
		if strings.Contains(c.out, "valid") {
			require.Equal(t, 201, strings.Count(out, `{"line":`))
		}
	}
}

// Names come from files of others: they must not control the terminal, break a table or forge its
// lines.
func TestControlCharactersAreEscaped(t *testing.T) {
	text := storetest.Must(json.Marshal("A\x1b[2J\r\n\tB\u009b\u202e"))(t)
	response := strings.ReplaceAll(`{"applied":false,"slug":"a","state":X,"id":"a","person":{"email":X},"warnings":[X],
		"listings":[{"id":"a","company":X}],"keys":[{"id":"a","name":X,"useCase":X}],"requests":[{"id":"a","name":X}],
		"accounts":[{"id":"a","email":X}],"entries":[{"id":1,"actor":X}],"listing":{"company":{"name":X},"summary":X},
		"record":{"facts":{"languages":[X]}},"facts":{"requirements":[X]},"events":[{"id":"e","note":X,"actor":X}],
		"records":[{"id":"a","reasons":[{"why":"review","at":"2026-11-18T09:30:00Z","note":X}]}],
		"refused":[{"line":1,"id":"a","problems":[{"message":X}]}]}`, "X", string(text))
	for _, line := range []string{"listings list", "listings show a", "listings import --dry-run -", "listings import -",
		"reviews due", "history show a", "keys list", "keys requests", "keys approve req_1", "keys import -", "accounts list",
		"accounts show acc_1", "audit"} {
		for _, output := range []string{"text", "json"} {
			c, _ := admin(t, http.StatusOK, response)
			out, errs, _ := verb(t, c.URL, "{}", append(strings.Fields(line), "--output", output)...)
			require.False(t, strings.ContainsAny(out+errs, "\x1b\u009b\u202e"), line)
			require.Contains(t, out+errs, `A\u001b[2J`, line)
			if output == "json" {
				require.JSONEq(t, response, out, "escapes must not change the value")
			} else if strings.HasSuffix(line, "list") {
				require.Equal(t, 2, strings.Count(out, "\n"), "%s must print a line for each entry", line)
			}
		}
	}
}
