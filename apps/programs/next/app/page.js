import Counter from './counter';
import { greet } from './actions';
import Image from 'next/image';

export default function Page() {
  return (
    <main>
      <h1>first heading</h1>
      <Counter />
      <form action={greet}><input name="name" /><button>Greet</button></form>
      <Image src="/picture.png" alt="a picture" width={64} height={64} />
    </main>
  );
}
