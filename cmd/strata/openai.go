package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// endpoint is a model behind an OpenAI-compatible chat completions API.
type endpoint struct {
	client openai.Client
	model  string
	tracer trace.Tracer
	// developer says whether the endpoint has that role, as OpenAI's own does. Others
	// drop such a message, or refuse the request.
	developer bool
	stream    func(text string) // called with the answer as it arrives
}

func newEndpoint(baseURL, model, key string, tr *tracing, stream func(string)) *endpoint {
	opts := []option.RequestOption{option.WithBaseURL(baseURL)}
	if key != "" {
		opts = append(opts, option.WithAPIKey(key))
	}
	return &endpoint{client: openai.NewClient(opts...), model: model, tracer: tr.tracer(), developer: isOpenAI(baseURL), stream: stream}
}

func isOpenAI(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil {
		return false
	}
	host := "." + u.Hostname()
	return strings.HasSuffix(host, ".openai.com") || strings.HasSuffix(host, ".openai.azure.com")
}

// maxRounds is how often a model may call tools in one turn; in the last round
// no tools are offered.
const maxRounds = 8

// answer is an answerFunc. It calls the layers' tools that the model asks for,
// and returns their results for another round.
func (e *endpoint) answer(ctx context.Context, run *memory.Run, _ *transcript.Turn, view *projection.View, round int) (memory.Response, []projection.Item, error) {
	params := openai.ChatCompletionNewParams{
		Model:         e.model,
		Messages:      chatMessages(view, e.developer),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	if round < maxRounds-1 {
		tools, err := chatTools(run.Tools())
		if err != nil {
			return memory.Response{}, nil, err
		}
		params.Tools = tools
	}
	resp, err := e.complete(ctx, params)
	if err != nil {
		return memory.Response{}, nil, err
	}
	if round == maxRounds-1 {
		return resp, nil, nil
	}
	var results []projection.Item
	for i := range resp.Items {
		if it := &resp.Items[i]; it.Kind == projection.ToolCall {
			results = append(results, callTool(ctx, run, it))
		}
	}
	return resp, results, nil
}

// callTool calls a layer's tool. What is wrong with the call is reported to the
// model.
func callTool(ctx context.Context, run *memory.Run, call *projection.Item) projection.Item {
	args := json.RawMessage(call.Arguments)
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	data, err := run.Call(ctx, call.Name, args)
	if err != nil {
		it := projection.Result(call.CallID, err.Error())
		it.Name, it.Failed = call.Name, true
		return it
	}
	it := projection.Result(call.CallID, string(data))
	it.Name = call.Name
	return it
}

// complete asks for one answer and streams it.
func (e *endpoint) complete(ctx context.Context, params openai.ChatCompletionNewParams) (resp memory.Response, err error) {
	ctx, span := e.tracer.Start(ctx, "chat "+e.model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", e.model)))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "")
		} else {
			span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", resp.Usage.Input), attribute.Int("gen_ai.usage.output_tokens", resp.Usage.Output))
		}
		span.End()
	}()
	stream := e.client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		chunk := stream.Current()
		if !all.AddChunk(chunk) {
			return resp, errors.New("read answer: its parts do not fit together")
		}
		if len(chunk.Choices) > 0 && e.stream != nil {
			e.stream(chunk.Choices[0].Delta.Content)
		}
		if chunk.JSON.Usage.Valid() {
			resp.Usage = chatUsage(&chunk.Usage)
		}
	}
	if err := stream.Err(); err != nil {
		if ctx.Err() != nil {
			return resp, ctx.Err()
		}
		return resp, endpointError(err)
	}
	if len(all.Choices) == 0 {
		return resp, errors.New("read answer: it is empty: is this a chat completions endpoint?")
	}
	m := all.Choices[0].Message
	resp.Model = all.Model
	if text := m.Content + m.Refusal; text != "" {
		resp.Items = append(resp.Items, projection.Text(projection.Assistant, text))
	}
	for _, c := range m.ToolCalls {
		resp.Items = append(resp.Items, projection.Call(c.ID, c.Function.Name, c.Function.Arguments))
	}
	return resp, nil
}

// endpointError says what can be done about a failed request.
func endpointError(err error) error {
	var api *openai.Error
	if !errors.As(err, &api) {
		return fmt.Errorf("ask endpoint: %w", err)
	}
	text := api.Message
	if text == "" {
		text = "it says no more"
	}
	switch api.StatusCode {
	case 401, 403:
		text += ": set OPENAI_API_KEY to a key that the endpoint knows"
	case 404:
		text += ": check --base-url (it ends in /v1 for most) and --model"
	}
	return fmt.Errorf("ask endpoint: status %d: %s", api.StatusCode, text)
}

func chatUsage(u *openai.CompletionUsage) memory.Usage {
	usage := memory.Usage{Input: int(u.PromptTokens), Output: int(u.CompletionTokens)}
	if u.JSON.PromptTokensDetails.Valid() && u.PromptTokensDetails.JSON.CachedTokens.Valid() {
		n := int(u.PromptTokensDetails.CachedTokens)
		usage.CacheRead = &n
	}
	return usage
}

func chatTools(infos []memory.ToolInfo) ([]openai.ChatCompletionToolUnionParam, error) {
	var tools []openai.ChatCompletionToolUnionParam
	for i := range infos {
		data, err := json.Marshal(infos[i].InputSchema)
		if err != nil {
			return nil, fmt.Errorf("offer tool %s: %w", infos[i].Name, err)
		}
		var schema shared.FunctionParameters
		if err := json.Unmarshal(data, &schema); err != nil {
			return nil, fmt.Errorf("offer tool %s: %w", infos[i].Name, err)
		}
		tools = append(tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: infos[i].Name, Description: openai.String(infos[i].Description), Parameters: schema,
		}))
	}
	return tools, nil
}

// chat builds the messages of a request. The API requires the results of calls
// directly after the message with the calls, so whatever is between them in the
// view waits until all are answered.
type chat struct {
	messages []openai.ChatCompletionMessageParamUnion
	open     map[string]bool // calls without their result
	waiting  []projection.Item
}

// chatMessages translates a view. Reasoning is left out: the API takes none.
//
// Instructions of a layer that stand behind the beginning stay where they are, as
// messages of the role developer, or of the user where the endpoint has no such role:
// their tag says what they are. At the beginning they are system messages. What is
// remembered data is a user's message, as its item says.
func chatMessages(view *projection.View, developer bool) []openai.ChatCompletionMessageParamUnion {
	c := chat{open: make(map[string]bool)}
	for band, it := range view.All() {
		if it.Layer != "" && it.Role == projection.System && band != projection.BandAnchor {
			later := *it
			if later.Role = projection.User; developer {
				later.Role = projection.Developer
			}
			it = &later
		}
		c.add(it)
	}
	for i := range c.waiting {
		c.message(&c.waiting[i])
	}
	return c.messages
}

func (c *chat) add(it *projection.Item) {
	switch it.Kind {
	case projection.ToolCall:
		c.open[it.CallID] = true
		c.call(it)
	case projection.ToolResult:
		text := it.Text()
		c.messages = append(c.messages, openai.ToolMessage(text, it.CallID))
		if delete(c.open, it.CallID); len(c.open) == 0 {
			for i := range c.waiting {
				c.message(&c.waiting[i])
			}
			c.waiting = nil
		}
	case projection.Message:
		if len(c.open) > 0 {
			c.waiting = append(c.waiting, *it)
			return
		}
		c.message(it)
	}
}

// call adds a call to the assistant's message, if that is the last one.
func (c *chat) call(it *projection.Item) {
	call := openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
		ID:       it.CallID,
		Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: it.Name, Arguments: it.Arguments},
	}}
	if n := len(c.messages); n > 0 && c.messages[n-1].OfAssistant != nil {
		m := c.messages[n-1].OfAssistant
		m.ToolCalls = append(m.ToolCalls, call)
		return
	}
	c.messages = append(c.messages, openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
		ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{call},
	}})
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *chat) message(it *projection.Item) {
	var m openai.ChatCompletionMessageParamUnion
	switch it.Role {
	case projection.System:
		m = openai.SystemMessage(it.Text())
	case projection.Developer:
		m = openai.DeveloperMessage(it.Text())
	case projection.Assistant:
		m = openai.AssistantMessage(it.Text())
	default:
		m = userMessage(it)
	}
	if m.OfUser != nil && validName.MatchString(it.Name) {
		m.OfUser.Name = openai.String(it.Name)
	}
	c.messages = append(c.messages, m)
}

// userMessage returns a text, or parts if there is more than text.
func userMessage(it *projection.Item) openai.ChatCompletionMessageParamUnion {
	var parts []openai.ChatCompletionContentPartUnionParam
	mixed := false
	for i := range it.Parts {
		p := &it.Parts[i]
		switch {
		case p.Type == projection.TextPart:
			parts = append(parts, openai.TextContentPart(p.Text))
			continue
		case p.Type == projection.ImagePart:
			parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: dataURL(p)}))
		case len(p.Data) > 0 && strings.HasPrefix(p.MediaType, "text/"):
			parts = append(parts, openai.TextContentPart(string(p.Data)))
		default:
			file := openai.ChatCompletionContentPartFileFileParam{Filename: openai.String(p.Name)}
			if len(p.Data) > 0 {
				file.FileData = openai.String(dataURL(p))
			} else {
				file.FileID = openai.String(p.URL)
			}
			parts = append(parts, openai.FileContentPart(file))
		}
		mixed = true
	}
	if !mixed {
		return openai.UserMessage(it.Text())
	}
	return openai.UserMessage(parts)
}

func dataURL(p *projection.Part) string {
	if len(p.Data) == 0 {
		return p.URL
	}
	mediaType := p.MediaType
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	return "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// summarize is a projection.Summarizer.
func (e *endpoint) summarize(ctx context.Context, items []projection.Item, limit int) (string, error) {
	var b strings.Builder
	for i := range items {
		fmt.Fprintf(&b, "%s: %s\n", itemSpeaker(&items[i]), items[i].Text())
	}
	resp, err := (&endpoint{client: e.client, model: e.model, tracer: e.tracer}).complete(ctx, openai.ChatCompletionNewParams{
		Model: e.model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(fmt.Sprintf("Summarise this part of a conversation in at most %d words. Keep names, numbers, dates, decisions and open questions.", max(limit/2, 10))),
			openai.UserMessage(b.String()),
		},
	})
	if err != nil {
		return "", err
	}
	for i := range resp.Items {
		if text := resp.Items[i].Text(); resp.Items[i].Kind == projection.Message && text != "" {
			return text, nil
		}
	}
	return "", errors.New("summarize: the answer is empty")
}
