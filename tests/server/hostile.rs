//! Conversations for which a template has to be stopped.

use serde_json::json;

use super::Server;

#[test]
fn a_template_that_was_stopped_too_often_is_unavailable_and_counted() {
    // Doubles a text for as long as there is memory, where the user asks for that.
    let template = "{% set ns = namespace(s='xx') %}{% for i in range(60 if messages[0].content == 'grow' else 0) %}\
                    {% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ messages[0].content }}";
    let server = Server::start(&["--chat-template", template, "--metrics"]);
    let ask = |text: &str| {
        let body = json!({ "messages": [{ "role": "user", "content": text }], "max_tokens": 1 });
        server.post("/v1/chat/completions", &body)
    };
    for _ in 0..8 {
        let [good, stopped] = ["hi", "grow"].map(ask);
        assert_eq!((good.status, stopped.status), (200, 400), "{} {}", good.text, stopped.text);
    }
    for answer in ["hi", "grow"].map(ask) {
        assert_eq!(answer.status, 503, "{}", answer.text);
        assert!(
            answer.text.contains("stopped 8 times") && answer.headers.contains_key("retry-after"),
            "{}",
            answer.text
        );
    }
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains("qrun:shed_total{reason=\"template given up\"} 2"), "{metrics}");
    let plain = server.post("/completion", &json!({ "prompt": "hi", "n_predict": 1 }));
    assert_eq!(plain.status, 200, "without a template all goes on: {}", plain.text);
}
