// The openai package of Node.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { BASE, KEY, MODEL, check, run } from "./cases.mjs";

const client = new OpenAI({ baseURL: BASE, apiKey: KEY, maxRetries: 0 });
const messages = [{ role: "user", content: "hi" }];
const says = (content) => [{ role: "user", content }];
const tool = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const Event = z.object({ name: z.string(), n: z.number().int() });

await run("openai-node", {
  "models": async () => {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    check(ids.includes(MODEL), ids);
    check((await client.models.retrieve(MODEL)).id === MODEL, "retrieve");
  },
  "chat": async () => {
    const answer = await client.chat.completions.create({ model: MODEL, messages });
    check(answer.choices[0].message.content.startsWith("hello") && answer.usage.total_tokens > 0, answer);
  },
  "stream with usage": async () => {
    const stream = await client.chat.completions.create({
      model: MODEL, messages, stream: true, stream_options: { include_usage: true } });
    let text = "", last;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? "";
      last = chunk;
    }
    check(text.includes("agent") && last.usage && last.choices.length === 0, text);
  },
  "the stream helper": async () => {
    const stream = client.chat.completions.stream({ model: MODEL, messages });
    check((await stream.finalContent()).includes("agent"), "no text");
  },
  "runTools": async () => {
    const called = [];
    const runner = client.chat.completions.runTools({
      model: MODEL, messages,
      tools: [{ type: "function", function: { ...tool.function, parse: JSON.parse,
        function: (args) => { called.push(args.city); return "sunny"; } } }],
    });
    check((await runner.finalContent()) && called.length === 1, called);
  },
  "streamed tool calls": async () => {
    const stream = client.chat.completions.stream({ model: MODEL, messages, tools: [tool] });
    const call = (await stream.finalChatCompletion()).choices[0];
    check(call.finish_reason === "tool_calls" && call.message.tool_calls[0].function.name === "get_weather", call);
  },
  "parse with zod": async () => {
    const answer = await client.chat.completions.parse({
      model: MODEL, messages, response_format: zodResponseFormat(Event, "event") });
    check(Event.safeParse(answer.choices[0].message.parsed).success, answer);
  },
  "errors have their classes": async () => {
    for (const [work, wanted] of [
      [() => client.chat.completions.create({ model: MODEL, messages: says("STUB_FAIL") }), OpenAI.InternalServerError],
      [() => client.chat.completions.create({ model: MODEL, messages: says("STUB_PROVIDER_ERROR") }), OpenAI.RateLimitError],
      [() => client.chat.completions.create({ model: MODEL, messages: [] }), OpenAI.BadRequestError],
      [() => client.models.retrieve("nope"), OpenAI.NotFoundError],
      [() => new OpenAI({ baseURL: BASE, apiKey: "bad", maxRetries: 0 }).models.list(), OpenAI.AuthenticationError],
    ]) {
      const error = await work().then(() => undefined, (error) => error);
      check(error instanceof wanted && error.requestID, String(error));
    }
  },
  "abort": async () => {
    const controller = new AbortController();
    const stream = await client.chat.completions.create(
      { model: MODEL, messages: says("STUB_SLOW=9"), stream: true }, { signal: controller.signal });
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) { controller.abort(); break; }
    }
  },
});
