package accountpages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apidoc"
	"opportunity.internal/pkg/pages"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
	"opportunity.internal/services/authquota/internal/keys"
)

const explorerFormPath = api.ExplorerPath + "/:operation"

// active returns the keys with which the person can make calls, newest first.
func (p *Pages) active(v *Visit) ([]keys.Key, error) {
	own, err := p.Keys.OwnKeys(v.ctx(), v.Person.Account)
	slices.Reverse(own)
	return slices.DeleteFunc(own, func(k keys.Key) bool { return k.StatusAt(v.Now) != keys.Active }), err
}

// keyField is the form field with the ID of the key. The API has no parameter of this name: it
// reads keys from a header only.
const keyField = "key"

// maxValue limits the value of a parameter, in characters.
const maxValue = 200

type explorer struct {
	Operations []apidoc.Operation
	Operation  apidoc.Operation
	Fields     []field
	Keys       []keys.Key
	Key        string // ID of the selected key
	Result     *result
}

// Path returns the path of an operation's form.
func (explorer) Path(id string) string { return api.ExplorerPath + "/" + id }

type field struct {
	apidoc.Parameter

	Value string
}

// Hint returns the first sentence of the description.
func (f field) Hint() template.HTML {
	text, _, _ := strings.Cut(strings.Join(strings.Fields(f.Description), " "), ". ")
	parts := strings.Split(template.HTMLEscapeString(strings.TrimSuffix(text, ".")+"."), "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "<code>" + parts[i] + "</code>"
	}
	return template.HTML(strings.Join(parts, "")) //nolint:gosec // escaped
}

// Number reports whether the value is an integer.
func (f field) Number() bool { return f.Resolved.Is("integer") }

func (p *Pages) explorerList(*Visit) (pages.View, error) {
	return pages.View{Redirect: explorer{}.Path(p.description.Operations[0].ID)}, nil
}

func (p *Pages) explorerForm(v *Visit) (pages.View, error) {
	shown, _, err := p.fill(v, v.Request.URL.Query())
	return shown, err
}

// makeCall handles a form: it asks the gateway to make the call, or shows the result of the call.
func (p *Pages) makeCall(v *Visit) (pages.View, error) {
	if v.GetHeader(api.ExplorerHeader) != "" {
		return p.explorerResult(v)
	}
	shown, call, err := p.fill(v, v.Request.PostForm)
	if err != nil || len(shown.Errors) > 0 {
		return shown, err
	}
	principal, err := p.principal(v, v.PostForm(keyField))
	if problem.Of(err).Code == problem.NotFound {
		return shown.Wrong(keyField, "Select one of your active keys."), nil
	}
	if err != nil {
		return pages.View{}, err
	}
	text, err := json.Marshal(api.ExplorerCall{Principal: principal, Target: call.Target(), Header: call.Header()})
	return pages.View{Status: http.StatusNoContent, Header: http.Header{api.ExplorerHeader: {string(text)}}}, err
}

// principal returns a key of the person's account as it is now, revoked and expired keys included:
// the gateway rejects them.
func (p *Pages) principal(v *Visit, id string) (api.Principal, error) {
	if err := accountdb.CheckID("key", id); err != nil {
		return api.Principal{}, err
	}
	var key keys.Resolved
	err := p.Epochs.InEffect(v.ctx(), func(ctx context.Context) (_ accountdb.Epoch, err error) {
		key, err = p.Keys.ResolveOwn(ctx, v.Person.Account, id)
		return key.Epoch, err
	})
	if err != nil {
		return api.Principal{}, err
	}
	return key.Principal(v.Now, p.Tiers)
}

// fill returns the form of the operation in the URL with values, its problems, and the call that it
// describes.
func (p *Pages) fill(v *Visit, values url.Values) (pages.View, apidoc.Call, error) {
	operation, ok := p.description.Operation(v.Param("operation"))
	if !ok {
		return pages.View{}, apidoc.Call{}, problem.New(problem.NotFound, "This operation does not exist.")
	}
	if err := unexpected(operation, values); err != nil {
		return pages.View{}, apidoc.Call{}, err
	}
	active, err := p.active(v)
	data := explorer{Operations: p.description.Operations, Operation: operation, Keys: active, Key: values.Get(keyField)}
	call := apidoc.Call{Operation: operation, Values: map[string]string{}}
	shown := pages.View{Template: "explorer", Title: operation.Summary}
	submitted := v.Request.Method == http.MethodPost
	for _, parameter := range operation.Parameters {
		value := strings.TrimSpace(values.Get(parameter.Name))
		data.Fields = append(data.Fields, field{parameter, value})
		call.Values[parameter.Name] = value
		if wrong := checkValue(parameter, value); wrong != "" && (submitted || value != "") {
			shown = shown.Wrong(parameter.Name, wrong)
		}
	}
	shown.Data = data
	return shown, call, err
}

// unexpected returns an error if values has a name that the form has not, or a name twice.
func unexpected(o apidoc.Operation, values url.Values) error {
	known := map[string]bool{keyField: true}
	for _, p := range o.Parameters {
		known[p.Name] = true
	}
	for name, all := range values {
		if !known[name] || len(all) > 1 {
			return problem.New(problem.InvalidParameter, "The form does not have the field %q once.", name)
		}
	}
	return nil
}

// checkValue returns what is wrong with a value, or an empty string. It leaves it to the API to
// reject values of the wrong type, so that people can see its response.
func checkValue(p apidoc.Parameter, value string) string {
	switch {
	case value == "" && p.Required:
		return "Enter " + p.Name + "."
	case utf8.RuneCountInString(value) > maxValue:
		return fmt.Sprintf("Enter at most %d characters for %s.", maxValue, p.Name)
	case strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }):
		return "Enter only printable characters for " + p.Name + "."
	}
	return ""
}

type result struct {
	api.ExplorerResult

	Target   string
	Programs []apidoc.Program // of the SDKs, too, if they can send the call
	Public   string

	Limit, Before, Remaining int // of the day's quota; -1 if the response does not state it
}

// explorerResult shows the result of a call, which the gateway sends, below its form.
func (p *Pages) explorerResult(v *Visit) (pages.View, error) {
	var received api.ExplorerResult
	if err := json.NewDecoder(v.Request.Body).Decode(&received); err != nil {
		return pages.View{}, problem.New(problem.InvalidParameter, "The result could not be read.").Because(err)
	}
	values, err := url.ParseQuery(string(received.Form))
	if err != nil {
		return pages.View{}, problem.New(problem.InvalidParameter, "The form could not be read.").Because(err)
	}
	shown, call, err := p.fill(v, values)
	if err != nil {
		return pages.View{}, err
	}
	programs, err := call.Programs()
	data := shown.Data.(explorer) //nolint:forcetypeassert // set by fill
	limit, left := number(received, "X-RateLimit-Limit"), number(received, "X-RateLimit-Remaining")
	data.Result = &result{received, call.Target(), programs, p.PublicURL, limit, left, left}
	if received.Charged {
		data.Result.Before++
	}
	shown.Data, shown.Errors = data, nil
	return shown, err
}

// Reason returns the status with its name.
func (r result) Reason() string { return fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)) }

// Tone returns the CSS class of the status badge.
func (r result) Tone() string {
	if r.Status < http.StatusBadRequest {
		return "good"
	}
	return "bad"
}

func number(r api.ExplorerResult, header string) int {
	n, err := strconv.Atoi(r.Value(header))
	if err != nil {
		return -1
	}
	return n
}

// Head returns the headers, one a line.
func (r result) Head() string {
	var lines []string
	for name, values := range r.Header {
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Cut reports whether only the start of the body is shown.
func (r result) Cut() bool { return r.Size > len(r.Body) }

// Text returns the body, indented if it is complete.
func (r result) Text() string {
	var indented bytes.Buffer
	if r.Cut() || json.Indent(&indented, r.Body, "", "  ") != nil {
		return strings.ToValidUTF8(string(r.Body), "")
	}
	return indented.String()
}
